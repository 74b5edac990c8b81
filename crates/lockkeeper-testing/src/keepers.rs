//! Keepers for the cases that test the engine and the public interface on a store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Case, Ttls};
use lockkeeper::layer::{Chaos, Faults};
use lockkeeper::{Event, Guard, Keeper, KeeperBuilder, LockName, Mutex as Lock};

/// How long a case waits for an event that may take long on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The log of a keeper's events, as short words, in order.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn note(&self, event: &Event<'_>) {
        let text = match event {
            Event::Queued { .. } => "queued".to_owned(),
            Event::Contended { .. } => "contended".to_owned(),
            Event::ClaimFailed { .. } => "claim failed".to_owned(),
            Event::Acquired { .. } => "acquired".to_owned(),
            Event::NotAcquired { outcome, .. } => format!("not acquired: {outcome:?}"),
            Event::Upgraded { .. } => "upgraded".to_owned(),
            Event::Downgraded { .. } => "downgraded".to_owned(),
            Event::Renewed { .. } => "renewed".to_owned(),
            Event::RenewalFailed { .. } => "renewal failed".to_owned(),
            Event::Jeopardy => "jeopardy".to_owned(),
            Event::Recovered => "recovered".to_owned(),
            Event::ClockAnomaly => "clock anomaly".to_owned(),
            Event::Lost { reason, .. } => format!("lost: {reason:?}"),
            Event::ReleaseRequested { by, reason, .. } => format!("asked by {by}: {reason}"),
            Event::Released { .. } => "released".to_owned(),
            Event::ReleaseFailed { .. } => "release failed".to_owned(),
            Event::DroppedWithoutRelease { .. } => "dropped".to_owned(),
            later => format!("{later:?}"),
        };
        self.0.lock().unwrap().push(text);
    }

    /// All entries so far, without the successful renewals.
    pub fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|e| *e != "renewed").cloned().collect()
    }

    /// Whether the log has this entry.
    pub fn has(&self, entry: &str) -> bool {
        self.0.lock().unwrap().iter().any(|e| e == entry)
    }
}

/// A keeper, its connection to the store, and the events of its locks.
#[derive(Debug)]
pub struct TestClient {
    /// The keeper.
    pub keeper: Keeper,
    /// The connection of the keeper.
    pub line: Arc<Chaos>,
    /// The events of the keeper's locks.
    pub event_log: EventLog,
}

impl TestClient {
    /// The mutex of this name.
    pub fn mutex(&self, name: &LockName) -> Lock {
        self.keeper.mutex(name).expect("a valid name")
    }

    /// Cuts the keeper off from the store, or connects it again without faults.
    pub fn cut_off(&self, off: bool) {
        self.line.set(if off { Faults::cut_off() } else { Faults::none() });
    }
}

impl Case {
    /// A keeper in a process of its own, whose locks outlive the case.
    pub async fn keeper(&self) -> Keeper {
        self.test_client(Ttls::long()).await.keeper
    }

    /// A keeper with these times on a connection that can be disturbed.
    pub async fn test_client(&self, ttls: Ttls) -> TestClient {
        self.test_client_with(ttls, |builder| builder).await
    }

    /// The same as [`test_client`](Self::test_client), with more settings.
    pub async fn test_client_with(
        &self,
        ttls: Ttls,
        set: impl FnOnce(KeeperBuilder) -> KeeperBuilder,
    ) -> TestClient {
        let line = Arc::new(
            Chaos::new(self.harness().client().await, self.clock().clone()).seed(self.next_seed()),
        );
        line.set(self.harness().fault_profile());
        let event_log = EventLog::default();
        let notes = event_log.clone();
        let builder = Keeper::builder(Arc::clone(&line))
            .clock(self.clock().clone())
            .ttl(ttls.ttl)
            .lock_delay(ttls.lock_delay)
            .owner("somebody")
            .on_event(move |event| notes.note(event));
        let keeper = set(self.harness().set_up(builder)).connect().await.expect("a keeper");
        TestClient { keeper, line, event_log }
    }

    /// Waits until `condition` holds. Panics if it does not hold in time.
    pub async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let start = self.now();
        while !condition().await {
            assert!(self.since(start) < TIME_LIMIT, "still not: {what}");
            self.pass(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this lock has `waiters` waiters. Returns at once on a store without a queue,
    /// where no line shows who waits.
    pub async fn until_waiting(&self, keeper: &Keeper, name: &LockName, waiters: usize) {
        if !keeper.capabilities().queue {
            return;
        }
        self.until("as many wait as should", async || {
            keeper.inspect(name).await.expect("the store answers").waiters.len() == waiters
        })
        .await;
    }

    /// Asserts that the lock is free and that its line is empty.
    pub async fn is_free(&self, name: &LockName) {
        let keeper = self.keeper().await;
        let start = self.now();
        loop {
            let info = keeper.inspect(name).await.expect("the store answers");
            if info.holders.is_empty() && info.waiters.is_empty() {
                break;
            }
            assert!(self.since(start) < TIME_LIMIT, "left behind: {info:?}");
            self.pass(Duration::from_millis(5)).await;
        }
        let guard =
            keeper.mutex(name).expect("a valid name").try_lock().await.expect("the store answers");
        guard.expect("the lock is free").release().await.expect("the store answers");
    }
}

/// A counter that is wrong if two tasks do not exclude each other: it reads a number, lets other
/// tasks run, and writes the number back.
#[derive(Clone, Debug, Default)]
pub struct LostUpdateCounter(Arc<Mutex<(u64, u64)>>);

impl LostUpdateCounter {
    /// Adds one, under this guard.
    ///
    /// # Panics
    /// When the token does not rise.
    pub async fn add(&self, guard: &Guard) {
        let before = self.0.lock().unwrap().0;
        tokio::task::yield_now().await;
        let mut counter = self.0.lock().unwrap();
        assert!(
            guard.token().get() > counter.1,
            "tokens rise: {} after {}",
            guard.token(),
            counter.1
        );
        *counter = (before + 1, guard.token().get());
    }

    /// The number that was counted.
    pub fn total(&self) -> u64 {
        self.0.lock().unwrap().0
    }
}
