//! One case on one store: its names, its clients, its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::{Client, Contender, Harness, Lives, Need, Time};
use crate::LockName;
use crate::store::Store;
use crate::time::{Clock, Instant};

/// No case takes longer than this, on its own time: a wake-up that never comes is a failure, not a hang.
const fn limit(time: Time) -> Duration {
    match time {
        Time::Virtual => Duration::from_secs(24 * 3600),
        Time::Real => Duration::from_secs(400),
    }
}

/// The names, the clients and the time of one case.
#[derive(Debug)]
pub struct Case<H> {
    harness: H,
    clock: Clock,
    prefix: String,
    seeds: AtomicU64,
}

impl<H: Harness> Case<H> {
    async fn start() -> Self {
        let harness = H::start().await;
        let (clock, prefix) = (harness.clock(), harness.prefix());
        Self { harness, clock, prefix, seeds: AtomicU64::new(1) }
    }

    /// The store under test.
    pub fn harness(&self) -> &H {
        &self.harness
    }

    /// A name that belongs to this case.
    pub fn name(&self, name: &str) -> LockName {
        LockName::new(&format!("{}{name}", self.prefix)).expect("a valid name")
    }

    /// The text that all names of this case begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A seed for the next connection.
    pub(super) fn next_seed(&self) -> u64 {
        self.seeds.fetch_add(1, Ordering::Relaxed)
    }

    /// The clock of the case.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The time since `then`.
    pub fn since(&self, then: Instant) -> Duration {
        self.clock.now().saturating_since(then)
    }

    /// Lets time go by.
    pub async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Lets time go by while these claims are renewed.
    pub async fn keep_alive(&self, time: Duration, alive: &[&Contender]) {
        let end = self.now() + time;
        let step = alive.iter().map(|c| c.lives().wait_ttl / 4).min().unwrap_or(time);
        while self.now() < end {
            for contender in alive {
                contender.renewed().await.expect("the store answers");
            }
            self.pass(step.min(end.saturating_since(self.now()))).await;
        }
    }

    /// Times with which claims expire within the case, without a lock-delay.
    pub fn short(&self) -> Lives {
        self.harness.short().without_delay()
    }

    /// A client in a process of its own, with a session.
    pub async fn client(&self, lives: Lives) -> Client {
        Client::open(self.harness.client().await, self.clock.clone(), lives).await
    }

    /// One client for each of these mutex claims on one name. The claims outlive the case.
    pub async fn mutexes<const N: usize>(&self, name: &str) -> [Contender; N] {
        let name = self.name(name);
        let mut contenders = Vec::new();
        for _ in 0..N {
            contenders.push(self.client(Lives::long()).await.mutex(&name));
        }
        contenders.try_into().expect("as many as were made")
    }

    /// A mutex claim with these times.
    pub async fn mutex(&self, name: &str, lives: Lives) -> Contender {
        self.client(lives).await.mutex(&self.name(name))
    }

    /// A writer that outlives the case. A writer is a mutex.
    pub async fn writer(&self, name: &str) -> Contender {
        self.mutex(name, Lives::long()).await
    }

    /// A reader that outlives the case.
    pub async fn reader(&self, name: &str) -> Contender {
        self.client(Lives::long()).await.reader(&self.name(name))
    }

    /// A claim of `weight` permits of `of`, which outlives the case.
    pub async fn permits(&self, name: &str, weight: u32, of: u32) -> Contender {
        self.client(Lives::long()).await.permits(&self.name(name), weight, of)
    }

    async fn missing(&self, needs: &[Need]) -> Option<Need> {
        let store: Arc<dyn Store> = self.harness.client().await;
        needs.iter().copied().find(|need| !need.is_met(&self.harness, &*store))
    }
}

/// Runs one case on a store and a runtime of its own.
pub fn run<H: Harness>(name: &str, needs: &[Need], body: impl AsyncFn(&Case<H>)) {
    runtime::<H>().block_on(async {
        let case = Case::<H>::start().await;
        if let Some(need) = case.missing(needs).await {
            panic!("{name} needs {need}, which this store has not: list the case under `left_out`");
        }
        let limit = limit(H::TIME);
        let ended = case.clock.timeout(limit, body(&case)).await;
        assert!(ended.is_some(), "{name} did not end within {limit:?}");
    });
}

/// Asserts that `listed` has exactly the cases that this store cannot run.
pub fn check_left_out<H: Harness>(all: &[(&str, &[Need])], listed: &[&str]) {
    runtime::<H>().block_on(async {
        let case = Case::<H>::start().await;
        let mut left_out = Vec::new();
        for (name, needs) in all {
            if let Some(need) = case.missing(needs).await {
                eprintln!("{name} needs {need}");
                left_out.push(*name);
            }
        }
        // `cargo xtask test` adds these numbers.
        eprintln!("left out: {} of {} cases", left_out.len(), all.len());
        assert_eq!(left_out, listed, "what this store cannot do has to be listed under `left_out`, in this order");
    });
}

fn runtime<H: Harness>() -> Runtime {
    let paused = H::TIME == Time::Virtual;
    Builder::new_current_thread().enable_all().start_paused(paused).build().expect("a runtime")
}
