//! A store that fails on demand, for the tests of programs that use locks.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::sync::lock;
use tokio::sync::watch;

use super::Op;
use crate::layer::{Chaos, Fault};
use crate::store::{
    Broken, ClaimKey, Evict, Live, Losses, Renewed, SessionId, Store, TOMBSTONE_MIN, Target,
    forward_store,
};
use crate::time::Clock;
use crate::{ErrorKind, MemoryStore, Result};

const WHO: &str = "TestStore";

/// A memory store that loses locks, fails, and is slow when a test calls for it. Clones are the
/// same store: one goes under the keeper of the code under test, the other stays with the test.
///
/// A test shows in three lines what happens to your work when its lock is lost:
///
/// ```
/// use lockkeeper::testing::TestStore;
/// use lockkeeper::{ErrorKind, Keeper};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper::Result<()> {
/// let store = TestStore::new();
/// let keeper = Keeper::builder(store.clone()).connect().await?;
///
/// let work = async |guard: &lockkeeper::Guard| {
///     store.expire(guard.name());
///     std::future::pending::<lockkeeper::Result<()>>().await // Work that would never end.
/// };
/// let error = keeper.mutex("report")?.lock().with(work).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Lost);
/// # Ok(())
/// # }
/// ```
///
/// # Names
/// A store knows full names. With [`KeeperBuilder::prefix`](crate::KeeperBuilder::prefix) or behind
/// a [`Prefix`](crate::layer::Prefix) the prefix belongs to the name.
/// [`Guard::full_name`](crate::Guard::full_name) has the prefix of the keeper.
///
/// # Time
/// The methods do not wait: a lock of 30 s is lost at once. Some things do take time, such as the
/// end of a lease whose [renewals are paused](Self::pause_renewals). Such things can run on virtual
/// time. Store and keeper need the same clock then:
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::testing::TestStore;
/// use lockkeeper::time::Clock;
/// use lockkeeper::{Keeper, LostReason};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
/// # runtime.block_on(async { // In a test: #[tokio::test(start_paused = true)]
/// let clock = Clock::tokio();
/// let store = TestStore::with_clock(clock.clone());
/// let keeper = Keeper::builder(store.clone()).clock(clock).connect().await?;
///
/// let guard = keeper.mutex("report")?.ttl(Duration::from_secs(3600)).lock().await?;
/// let paused = store.pause_renewals();
/// assert_eq!(guard.lost().await, LostReason::Expired); // An hour later, in no time.
/// # drop(paused);
/// # Ok::<(), lockkeeper::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct TestStore(Arc<Inner>);

struct Inner {
    memory: MemoryStore,
    /// The faults and the delays that all clients share.
    way: Chaos,
    keepers: Mutex<Vec<Losses>>,
    /// The number of pauses of the renewals.
    pauses: watch::Sender<usize>,
}

impl TestStore {
    /// An empty store without faults, on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// An empty store without faults on another clock, for tests on virtual time. The keepers of
    /// the store need the same clock.
    pub fn with_clock(clock: Clock) -> Self {
        let memory = MemoryStore::with_clock(clock.clone());
        let way = Chaos::new(Arc::new(memory.clone()), clock);
        Self(Arc::new(Inner {
            memory,
            way,
            keepers: Mutex::default(),
            pauses: watch::Sender::new(0),
        }))
    }

    /// Ends the lock as if its lease and its lock-delay had expired. Its holders have [`Expired`]
    /// before this method returns, and the next waiter has the lock.
    ///
    /// # Panics
    /// When no claim holds the lock: a test with a wrong name would wait for the loss for ever. The
    /// message lists the names that are held.
    ///
    /// [`Expired`]: crate::LostReason::Expired
    #[track_caller]
    pub fn expire(&self, name: impl AsRef<str>) {
        let name = name.as_ref();
        let (theirs, others): (Vec<_>, Vec<_>) =
            self.0.memory.holders().into_iter().partition(|key| key.name.as_str() == name);
        assert!(!theirs.is_empty(), "{}", nobody_holds(name, &others));
        for key in theirs {
            // The holder learns of the loss before the lock is free, so no two clients hold it at
            // once.
            self.report_loss(&key, None);
            at_once(self.0.memory.withdraw(&key, Some(TOMBSTONE_MIN)));
        }
    }

    /// Breaks every lock that is held, as [`Admin::break_lock`](crate::Admin::break_lock) with
    /// [`Break::Mark`](crate::Break::Mark) does. Each holder has [`Broken`] before this method
    /// returns. The next waiter has the lock when the holder's guard is dropped, or when the lease
    /// has expired.
    ///
    /// [`Broken`]: crate::LostReason::Broken
    pub fn break_all(&self) {
        let broken = Broken { by: WHO.into(), reason: "break_all()".into(), removed: false };
        for key in self.0.memory.holders() {
            if let Some(admin) = self.0.memory.admin() {
                let target = Target::Id(key.id.hash());
                at_once(admin.evict(&key.name, &target, Evict::Mark, &broken.by, &broken.reason));
            }
            self.report_loss(&key, Some(&broken));
        }
    }

    /// Makes the next call of this operation do nothing, and fail with this error. Two calls plan
    /// it for the next two calls.
    ///
    /// A keeper tries again if that helps: an attempt to lock fails with
    /// [`Unavailable`](ErrorKind::Unavailable) when its first four claims do, and a release when
    /// four withdrawals do. With [`SessionLost`] the keeper loses all locks of the session of that
    /// call.
    ///
    /// For a call that takes effect without an answer see [`plan`](Self::plan).
    ///
    /// ```
    /// use lockkeeper::testing::{Op, TestStore};
    /// use lockkeeper::{ErrorKind, Keeper};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper::Result<()> {
    /// let store = TestStore::new();
    /// let keeper = Keeper::builder(store.clone()).connect().await?;
    /// store.fail_next(Op::Claim, ErrorKind::Denied);
    /// assert_eq!(keeper.mutex("report")?.lock().await.unwrap_err().kind(), ErrorKind::Denied);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`SessionLost`]: ErrorKind::SessionLost
    pub fn fail_next(&self, op: Op, kind: ErrorKind) {
        self.plan(op, Fault::Answered(kind));
    }

    /// Plans this fault for the next call of this operation. With [`Fault::LostReply`] the call
    /// takes effect and its answer is lost. With [`Fault::LostRequest`] the call has no effect, and
    /// the caller cannot know that.
    pub fn plan(&self, op: Op, fault: Fault) {
        self.0.way.plan(op, fault);
    }

    /// Delays each answer to this operation by this time from now on; zero ends the delay. The
    /// store processes the call before the delay. Other calls are not delayed.
    pub fn delay(&self, op: Op, by: Duration) {
        self.0.way.delay(op, by);
    }

    /// Stops all renewals, and their answers, until the returned value is dropped. A keeper is in
    /// [`Jeopardy`] from the first renewal that it misses, and its locks end when their leases
    /// expire. On real time, use a short ttl.
    ///
    /// [`Jeopardy`]: crate::SessionState::Jeopardy
    #[must_use = "renewals go on when it is dropped"]
    pub fn pause_renewals(&self) -> RenewalsPaused {
        self.0.pauses.send_modify(|pauses| *pauses += 1);
        RenewalsPaused(self.clone())
    }

    fn report_loss(&self, key: &ClaimKey, broken: Option<&Broken>) {
        // The mutex is free during the callbacks: a callback may call this store again.
        let keepers = self.keepers().clone();
        let closed: Vec<_> =
            keepers.into_iter().filter(|keeper| !keeper.lost(key.id, broken.cloned())).collect();
        self.keepers().retain(|keeper| !closed.contains(keeper));
    }

    fn keepers(&self) -> std::sync::MutexGuard<'_, Vec<Losses>> {
        lock(&self.0.keepers)
    }
}

/// Keeps renewals from a [`TestStore`] while this value lives. With several values, renewals go on
/// when the last one is dropped.
#[derive(Debug)]
pub struct RenewalsPaused(TestStore);

impl RenewalsPaused {
    /// Lets the renewals through, including the renewals that waited. Dropping the value does the
    /// same.
    pub fn resume(self) {}
}

impl Drop for RenewalsPaused {
    fn drop(&mut self) {
        self.0.0.pauses.send_modify(|pauses| *pauses -= 1);
    }
}

impl Default for TestStore {
    fn default() -> Self {
        Self::new()
    }
}

fn nobody_holds(name: &str, held: &[ClaimKey]) -> String {
    let mut held: Vec<_> = held.iter().map(|key| key.name.as_str()).collect();
    held.sort_unstable();
    held.dedup();
    format!(
        "TestStore: nobody holds {name:?}; held are {held:?}. Try: the full name, with its prefix, once it is held"
    )
}

/// The memory store never waits: each of its calls ends with the first poll.
fn at_once<T>(call: impl Future<Output = Result<T>>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.expect("the memory store does not fail"),
        Poll::Pending => unreachable!("the memory store does not wait"),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for TestStore {
    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let mut pauses = self.0.pauses.subscribe();
        // Without a pause, the renewal takes its place among the calls with its first poll.
        if *pauses.borrow() > 0 {
            // The sender lives as long as this store.
            let _ = pauses.wait_for(|pauses| *pauses == 0).await;
        }
        self.0.way.renew(session, live).await
    }

    fn on_loss(&self, listener: Losses) {
        // The store below reports requests for a release. This store reports losses.
        self.0.way.on_loss(listener.clone());
        self.keepers().push(listener);
    }

    forward_store! { self => self.0.way; capabilities admin open close claim amend withdraw wait line id fence_key }
}

impl fmt::Display for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.way, f)
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestStore").field(&self.0.way).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keeper;

    #[tokio::test]
    async fn keepers_that_are_gone_are_forgotten() {
        let store = TestStore::new();
        let [gone, here] =
            [store.clone(), store.clone()].map(Keeper::builder).map(|builder| builder.connect());
        drop(gone.await.unwrap());
        let here = here.await.unwrap();
        let guard = here.mutex("n").unwrap().lock().await.unwrap();
        assert_eq!(store.keepers().len(), 2);
        store.expire("n");
        assert_eq!(store.keepers().len(), 1);
        assert!(guard.check().is_err());
    }
}
