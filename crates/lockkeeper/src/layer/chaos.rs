//! A store on a bad network: faults happen to requests and answers, chosen by a seed.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{MutexGuard, watch};

use super::faults::{Drawn, Fault, FaultPlan, Faults, Operation};
use crate::store::{
    Amend, Amended, Claim, ClaimKey, Interest, Line, Live, Opened, Renewed, Revision, SessionId,
    SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal, forward_store,
};
use crate::time::Clock;
use crate::{LockName, Result};
use lockkeeper_core::sync::lock;

/// A store around a store, for tests: requests and answers are lost, doubled and delayed.
///
/// It stands for *one client's* connection. Give each client a `Chaos` with a seed of its own.
///
/// # Which faults change the order
/// A store processes the requests of one client in the order of their first polls, and so does this
/// store: a delayed request delays all later ones, as on one connection. Two faults may break the
/// order, as a real network does when a client gives up a connection and goes on with a new one:
/// - the *copy* of a request whose answer was lost ([`Fault::LateCopy`]), and
/// - a request that its caller counts as unanswered ([`Fault::Overdue`]).
///
/// Both arrive at most 60 s late, and a tombstone lasts at least as long. A claim is not doubled
/// after its answer has arrived, since its owner then has no reason to set a tombstone.
///
/// Answers are delayed one by one, so they may change places.
///
/// The administrator's operations pass through unchanged.
pub struct Chaos {
    inner: Arc<dyn Store>,
    clock: Clock,
    plan: Mutex<FaultPlan>,
    /// The turn to send a request.
    turn: tokio::sync::Mutex<()>,
    /// How many late requests have not arrived yet.
    under_way: Arc<watch::Sender<usize>>,
}

type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl Chaos {
    /// A client of `inner` without faults. `clock` is the clock on which the store's users sleep.
    pub fn new(inner: Arc<dyn Store>, clock: Clock) -> Self {
        let under_way = Arc::new(watch::Sender::new(0));
        Self {
            inner,
            clock,
            plan: Mutex::new(FaultPlan::none()),
            turn: tokio::sync::Mutex::default(),
            under_way,
        }
    }

    /// Starts the random sequence of this seed. The same requests in the same order then meet the
    /// same faults.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.sow(seed);
        self
    }

    /// Starts the random sequence of this seed while the store is in use.
    pub fn sow(&self, seed: u64) {
        lock(&self.plan).sow(seed);
    }

    /// Sets the faults, from the next request on.
    pub fn set(&self, faults: Faults) {
        lock(&self.plan).faults = faults;
    }

    /// Ends all faults, except for the requests that are still to arrive late: see
    /// [`settled`](Self::settled).
    pub fn quiet(&self) {
        lock(&self.plan).quiet();
    }

    /// Plans this fault for the next request of this kind, regardless of the rates. Two calls plan
    /// it for the next two requests.
    pub fn plan(&self, operation: Operation, fault: Fault) {
        lock(&self.plan).plan(operation, fault);
    }

    /// Delays every answer to this operation by this time from now on, and leaves the faults as
    /// they are. Zero ends the delay.
    pub fn delay(&self, operation: Operation, by: Duration) {
        lock(&self.plan).delay(operation, by);
    }

    /// Waits until all late requests have arrived.
    ///
    /// # Cancel safety
    /// The future only waits, and may be dropped.
    pub async fn settled(&self) {
        let mut under_way = self.under_way.subscribe();
        // The sender lives as long as this store.
        let _ = under_way.wait_for(|requests| *requests == 0).await;
    }

    async fn send<'a, T>(
        &'a self,
        operation: Operation,
        copy: Option<Request>,
        call: impl Fn() -> Reply<'a, T> + Send,
    ) -> Result<T> {
        let about = copy.as_ref().and_then(Request::about);
        let drawn = lock(&self.plan).draw(operation, about);
        self.send_drawn(operation, drawn, copy, call).await
    }

    async fn send_drawn<'a, T>(
        &'a self,
        operation: Operation,
        drawn: Drawn,
        copy: Option<Request>,
        call: impl Fn() -> Reply<'a, T> + Send,
    ) -> Result<T> {
        let turn = self.turn.lock().await;
        self.hold_up(drawn.before).await;
        let error = drawn.fault.and_then(Fault::error);
        let copy = copy.filter(|_| drawn.fault.is_some_and(Fault::arrives_late));
        if let Some(error) = error.clone().filter(|_| !drawn.fault.is_some_and(Fault::loses_answer))
        {
            self.process_later(copy, drawn.late);
            return Err(error);
        }
        let first = if drawn.fault == Some(Fault::Twice) { Some(call().await) } else { None };
        let second = in_turn(turn, call()).await;
        // The second of two withdrawals finds nothing. Its client gets the answer of the first.
        let reply = first.filter(|_| operation == Operation::Withdraw).unwrap_or(second);
        self.hold_up(drawn.after).await;
        self.process_later(copy, drawn.late);
        error.map_or(reply, Err)
    }

    async fn hold_up(&self, delay: Duration) {
        if !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
    }

    fn process_later(&self, request: Option<Request>, delay: Duration) {
        let Some(request) = request else { return };
        let (inner, clock) = (Arc::clone(&self.inner), self.clock.clone());
        let under_way = UnderWay::one_more(&self.under_way);
        spawn(async move {
            clock.sleep(delay).await;
            request.process(&*inner).await;
            drop(under_way);
        });
    }
}

/// Sends a request and passes the turn on: the request takes its place with its first poll.
async fn in_turn<T>(turn: MutexGuard<'_, ()>, mut call: Reply<'_, T>) -> Result<T> {
    let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    drop(turn);
    match first {
        Poll::Ready(reply) => reply,
        Poll::Pending => call.await,
    }
}

/// Starts a task; no other code of this layer does.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// Counts a late request until it is dropped, processed or not.
struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    fn one_more(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|n| *n += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

/// A request that can arrive late.
enum Request {
    Open(SessionId, SessionSpec),
    Renew(SessionId, Vec<Live>),
    Claim(Claim),
    Amend(ClaimKey, u64, Amend),
    Withdraw(ClaimKey, Option<Duration>),
}

impl Request {
    /// The lock of the request, if it has one.
    fn about(&self) -> Option<&LockName> {
        match self {
            Self::Claim(claim) => Some(&claim.key.name),
            Self::Amend(key, ..) | Self::Withdraw(key, _) => Some(&key.name),
            Self::Open(..) | Self::Renew(..) => None,
        }
    }

    /// Sends the request to the store, and drops the answer.
    async fn process(&self, store: &dyn Store) {
        match self {
            Self::Open(id, spec) => drop(store.open(id, spec).await),
            Self::Renew(session, live) => drop(store.renew(session, live).await),
            Self::Claim(claim) => drop(store.claim(claim).await),
            Self::Amend(key, number, change) => drop(store.amend(key, *number, change).await),
            Self::Withdraw(key, tombstone) => drop(store.withdraw(key, *tombstone).await),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Chaos {
    forward_store! { self => self.inner; capabilities admin fence_key on_loss }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let copy = Request::Open(id.clone(), spec.clone());
        self.send(Operation::Open, Some(copy), || self.inner.open(id, spec)).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let copy = Request::Renew(session.clone(), live.to_vec());
        self.send(Operation::Renew, Some(copy), || self.inner.renew(session, live)).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.send(Operation::Close, None, || self.inner.close(session, live)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.send(Operation::Claim, Some(Request::Claim(claim.clone())), || self.inner.claim(claim))
            .await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        let copy = Request::Amend(key.clone(), number, change.clone());
        self.send(Operation::Amend, Some(copy), || self.inner.amend(key, number, change)).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let copy = Request::Withdraw(key.clone(), tombstone);
        self.send(Operation::Withdraw, Some(copy), || self.inner.withdraw(key, tombstone)).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        let drawn = lock(&self.plan).draw(Operation::Wait, None);
        match drawn.fault {
            Some(Fault::FalseWake) => Ok(Wake::Changed),
            Some(Fault::LostWake) => {
                self.clock.sleep(within).await;
                Ok(Wake::Elapsed)
            }
            _ => {
                self.send_drawn(Operation::Wait, drawn, None, || {
                    self.inner.wait(interest, seen, within)
                })
                .await
            }
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        self.send(Operation::Line, None, || self.inner.line(name)).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.send(Operation::Id, None, || self.inner.id()).await
    }
}

impl fmt::Display for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl fmt::Debug for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos")
            .field("inner", &self.inner)
            .field("faults", &lock(&self.plan).faults)
            .finish_non_exhaustive()
    }
}
