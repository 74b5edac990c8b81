//! One case on one store: its names, its clients, its time.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::harness::AnyHarness;
use super::moved_time::Moving;
use super::{Client, Contender, Harness, Need, Time, Ttls, cases};
use lockkeeper::LockName;
use lockkeeper::time::{Clock, Instant};

/// No case takes longer than this on its own time. A wake-up that never comes is a failure, not a
/// hang.
const fn limit(time: Time) -> Duration {
    match time {
        Time::Virtual => Duration::from_secs(24 * 3600),
        Time::Moved => Duration::from_secs(3600),
        Time::Real => Duration::from_secs(400),
    }
}

/// The names, the clients and the time of one case.
#[derive(Debug)]
pub struct Case {
    /// `_moving` is dropped before `harness`: the task that moves the time ends before the server.
    _moving: Option<Moving>,
    harness: Box<dyn AnyHarness>,
    clock: Clock,
    prefix: String,
    seeds: AtomicU64,
}

pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) needs: &'static [Need],
    pub(super) body: for<'a> fn(&'a Case) -> Body<'a>,
}

/// The steps of a case.
type Body<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

static CASES: &[Entry] = crate::__store_cases! { __timed_cases __entries [] };

impl Case {
    async fn start<H: Harness>() -> Self {
        let harness = H::start().await;
        let (clock, prefix) = (harness.clock(), harness.prefix());
        let moving = (H::TIME == Time::Moved).then(|| {
            Moving::start(
                harness
                    .server_clock()
                    .expect("a harness on moved time has the clock of its server"),
            )
        });
        Self {
            _moving: moving,
            harness: Box::new(harness),
            clock,
            prefix,
            seeds: AtomicU64::new(1),
        }
    }

    /// The store under test.
    pub fn harness(&self) -> &dyn AnyHarness {
        &*self.harness
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

    /// Lets time go by, and renews these claims meanwhile.
    pub async fn keep_alive(&self, time: Duration, alive: &[&Contender]) {
        let end = self.now() + time;
        let step = alive.iter().map(|c| c.ttls().wait_ttl / 4).min().unwrap_or(time);
        while self.now() < end {
            for contender in alive {
                contender.renewed().await.expect("the store answers");
            }
            self.pass(step.min(end.saturating_since(self.now()))).await;
        }
    }

    /// Times for claims that expire within the case, without a lock-delay.
    pub fn short(&self) -> Ttls {
        self.harness.short().without_delay()
    }

    /// A client in a process of its own, with a session.
    pub async fn client(&self, ttls: Ttls) -> Client {
        Client::open(self.harness.client().await, self.clock.clone(), ttls).await
    }

    /// A client in a process of its own, with a detached session.
    pub async fn detached(&self, ttls: Ttls) -> Client {
        Client::open_as(self.harness.client().await, self.clock.clone(), ttls, true).await
    }

    /// Another client of this session, in a process of its own, that has not opened the session.
    pub async fn beside(&self, client: &Client) -> Client {
        client.beside(self.harness.client().await)
    }

    /// This number of clients, each with a mutex claim on the same name. The claims outlive the
    /// case.
    pub async fn mutexes<const N: usize>(&self, name: &str) -> [Contender; N] {
        let name = self.name(name);
        let mut contenders = Vec::new();
        for _ in 0..N {
            contenders.push(self.client(Ttls::long()).await.mutex(&name));
        }
        contenders.try_into().expect("as many as were made")
    }

    /// A mutex claim with these times.
    pub async fn mutex(&self, name: &str, ttls: Ttls) -> Contender {
        self.client(ttls).await.mutex(&self.name(name))
    }

    /// A writer that outlives the case. A writer is a mutex.
    pub async fn writer(&self, name: &str) -> Contender {
        self.mutex(name, Ttls::long()).await
    }

    /// A reader that outlives the case.
    pub async fn reader(&self, name: &str) -> Contender {
        self.client(Ttls::long()).await.reader(&self.name(name))
    }

    /// A claim of `weight` permits of `of`, which outlives the case.
    pub async fn permits(&self, name: &str, weight: u32, of: u32) -> Contender {
        self.client(Ttls::long()).await.permits(&self.name(name), weight, of)
    }

    async fn missing(&self, needs: &[Need]) -> Option<Need> {
        let store = self.harness.client().await;
        needs.iter().copied().find(|need| !need.is_met(&*self.harness, &*store))
    }

    async fn assert_has(&self, needs: &[Need], name: &str) {
        if let Some(need) = self.missing(needs).await {
            panic!("{name} needs {need}, which this store has not: enter it under `lacks`");
        }
    }

    async fn end(&self, body: impl Future<Output = ()>, name: &str) {
        let limit = limit(self.harness.time());
        let ended = self.clock.timeout(limit, body).await;
        assert!(ended.is_some(), "{name} did not end within {limit:?}");
    }
}

/// Runs one case of the suite on a store and a runtime of its own.
pub fn run_case<H: Harness>(name: &str) {
    run_entry(H::TIME, Box::pin(Case::start::<H>()), name);
}

/// Runs one case. The code does not depend on the type of the store, so it is compiled once.
fn run_entry(time: Time, start: Pin<Box<dyn Future<Output = Case>>>, name: &str) {
    let entry = entry(name);
    runtime(time).block_on(async {
        let case = start.await;
        case.assert_has(entry.needs, name).await;
        case.end((entry.body)(&case), name).await;
    });
}

/// Runs a case that is not part of the suite.
pub fn run<H: Harness>(name: &str, needs: &[Need], body: impl AsyncFn(&Case)) {
    runtime(H::TIME).block_on(async {
        let case = Case::start::<H>().await;
        case.assert_has(needs, name).await;
        case.end(body(&case), name).await;
    });
}

fn entry(name: &str) -> &'static Entry {
    CASES
        .iter()
        .find(|entry| entry.name == name)
        .unwrap_or_else(|| panic!("the suite has no case {name}"))
}

/// Asserts that `lacks` names everything that `cases` need and this store does not have, and that
/// this number of cases need it.
pub fn check_left_out<H: Harness>(cases: &[&str], lacks: &[Need], left_out: usize) {
    let needs: Vec<&[Need]> = cases.iter().map(|name| entry(name).needs).collect();
    let missing = runtime(H::TIME).block_on(async {
        let case = Case::start::<H>().await;
        let mut missing = Vec::new();
        for need in needs.iter().copied().flatten().copied() {
            if !missing.contains(&need) && case.missing(&[need]).await.is_some() {
                missing.push(need);
            }
        }
        missing
    });
    let names =
        |needs: &[Need]| needs.iter().map(|need| format!("{need:?}")).collect::<BTreeSet<_>>();
    assert_eq!(
        names(&missing),
        names(lacks),
        "what this store has not is to be named under `lacks`"
    );
    let is_left_out = |needs: &&&[Need]| needs.iter().any(|need| lacks.contains(need));
    let count = needs.iter().filter(is_left_out).count();
    // `cargo xtask test` adds these numbers.
    eprintln!("left out: {count} of {} cases", cases.len());
    assert_eq!(count, left_out, "the number under `left_out` is another one");
}

fn runtime(time: Time) -> Runtime {
    let is_paused = time != Time::Real;
    Builder::new_current_thread().enable_all().start_paused(is_paused).build().expect("a runtime")
}
