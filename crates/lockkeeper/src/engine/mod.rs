//! The engine: sessions, renewals, deadlines, waiting and cleaning up, once for all stores. It knows claims only, and
//! never names a backend.
//!
//! | file | what it decides |
//! |---|---|
//! | `attempt` | one attempt, from the request to the grant, and all that can become of it |
//! | `request` | what an attempt asks for |
//! | `granted` | a grant on its way to becoming a guard |
//! | `reentry` | the guards that one owner has of one lock |
//! | `change` | claims that are changed while they are held |
//! | `together` | several locks as one: in a fixed order, all or nothing |
//! | `waiter` | one id in line: claim, wait, claim again |
//! | `control` | whether the caller still wants it |
//! | `hold` | one claim as its client believes in it |
//! | `danger` | whether renewals fail, and what a store may have forgotten |
//! | `schedule` | the claims of a session, and which of them is to be renewed next |
//! | `opening` | opening a session once, for all that want it |
//! | `session` | what the claims of one ttl live and die with |
//! | `shutdown` | the end of everything, in order |
//! | `state` | how the sessions are, for those who watch |
//! | `watchdog` | when to renew what, and what the answers mean |
//! | `detached` | claims that are given away, and those that others gave |
//! | `told` | what a store says without being asked |
//! | `deadline` | the timer that ends belief, whatever the store does |
//! | `lock` | locking a mutex |
//! | `local_queue` | which task of this process stands in the store's line |
//! | `look` | what people see of a store, and whether it still has what was broken |
//! | `reaper` | withdrawing what nobody wants any more, until it is known to be gone |

mod attempt;
mod change;
mod control;
mod danger;
mod deadline;
mod detached;
mod granted;
mod hold;
mod local_queue;
mod lock;
mod look;
mod lost;
mod opening;
mod reaper;
mod reentry;
mod reports;
mod request;
mod schedule;
mod session;
mod shutdown;
mod state;
mod together;
mod waiter;
mod watchdog;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, watch};

pub(crate) use self::attempt::Attempt;
pub(crate) use self::control::AttemptControl;
pub(crate) use self::granted::{Grant, Granted};
pub(crate) use self::hold::{Hold, Share};
use self::local_queue::LocalQueues;
pub(crate) use self::lock::lock;
pub(crate) use self::look::LineObserver;
pub use self::lost::Lost;
use self::opening::Opening;
pub(crate) use self::reentry::ReentrantShare;
pub(crate) use self::request::{Request, mode};
pub(crate) use self::session::Session;
pub use self::session::SessionState;
use self::session::proof_lag;
pub(crate) use self::together::{AllGranted, Together, kept_from_all, offer};
use crate::event::Event;
use crate::events::Events;
use crate::runtime::Runtime;
use crate::store::{Capabilities, SessionSpec, Store};
use crate::time::{Clock, Instant};
use crate::{Error, ErrorKind, FencingToken, LockName, LostReason, Owner, Result};

/// What the operator set once for all locks of a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// How long an attempt waits that waits and does not say for how long.
    pub(crate) default_wait: Option<Duration>,
    pub(crate) prefix: String,
    pub(crate) owner: Arc<str>,
    pub(crate) epoch: u16,
    pub(crate) max_waiters: u32,
}

/// The store of a keeper: as the keeper shows it, and as it is.
#[derive(Debug)]
pub(crate) struct Stores {
    /// The names behind the prefix of the keeper, without the prefix.
    pub(crate) shown: Arc<dyn Store>,
    /// All names, in full.
    pub(crate) whole: Arc<dyn Store>,
}

/// One engine serves one keeper. It knows a lock by the name that was typed; the store below adds the prefix.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The same store with full names, for those that come out of sequencers.
    whole: Arc<dyn Store>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    pub(crate) events: Events,
    pid: AtomicU32,
    /// The task of the deadlines has the other end, which is dropped with the runtime.
    alive: Weak<()>,
    closed: AtomicBool,
    /// Notified when the engine closes, for the local waiters.
    closing: Notify,
    shared: Mutex<HashMap<SessionSpec, Arc<Opening>>>,
    /// All open sessions, those of fixed leases too.
    open: Mutex<Vec<Arc<Session>>>,
    queues: LocalQueues,
    owner_entries: reentry::OwnerEntries,
    /// What the guards of an owner hold of a lock.
    owners: Mutex<HoldsOfOwners>,
    state: watch::Sender<SessionState>,
    /// Wakes the timer for a deadline that is earlier than the one it is set to.
    deadlines: deadline::Timer,
}

type HoldsOfOwners = HashMap<(LockName, Owner), Vec<Arc<Hold>>>;

impl Engine {
    pub(crate) fn start(
        stores: Stores,
        clock: Clock,
        settings: Settings,
        runtime: Runtime,
        events: Events,
    ) -> Arc<Self> {
        let alive = Arc::new(());
        let Stores { shown: store, whole } = stores;
        let engine = Arc::new(Self {
            capabilities: store.capabilities(),
            events: events.of(&store),
            store,
            whole,
            clock,
            settings,
            runtime,
            pid: std::process::id().into(),
            alive: Arc::downgrade(&alive),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            shared: Mutex::default(),
            open: Mutex::default(),
            queues: LocalQueues::default(),
            owner_entries: reentry::OwnerEntries::default(),
            owners: Mutex::default(),
            state: watch::Sender::new(SessionState::Valid),
            deadlines: deadline::Timer::default(),
        });
        let deadlines = deadline::run(Arc::downgrade(&engine), engine.clock.clone(), engine.deadlines.clone());
        engine.runtime.serve(async move {
            let _alive = alive;
            deadlines.await;
        });
        engine.listen();
        engine
    }

    /// # Errors
    /// `Forked` in a forked child, `Closed` after a shutdown.
    pub(crate) fn usable(&self) -> Result<()> {
        if !self.usable_here() {
            return Err(Error::new(ErrorKind::Forked, "this process was forked after the keeper had connected")
                .with_remedy("connect in the child"));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the keeper was shut down").with_remedy("connect again"));
        }
        if self.has_no_runtime() {
            let problem = "the runtime in which the keeper was connected has ended, and with it all renewals";
            let remedy = "connect in a runtime that lives as long as the keeper, or with dedicated_thread()";
            return Err(Error::new(ErrorKind::Closed, problem).with_remedy(remedy));
        }
        Ok(())
    }

    /// Whether this is the process that connected.
    pub(crate) fn usable_here(&self) -> bool {
        self.pid.load(Ordering::Relaxed) == std::process::id()
    }

    /// As a forked child sees it: all is as it was, but the process is another.
    #[cfg(test)]
    pub(crate) fn pretend_to_be_forked(&self) {
        self.pid.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the runtime is no more: no task of it runs, and no timer of it may be polled.
    pub(crate) fn has_no_runtime(&self) -> bool {
        self.alive.strong_count() == 0
    }

    /// What a poll gives. A timer that is polled in the moment in which its runtime ends tells that by a panic only.
    ///
    /// # Errors
    /// `Closed` when the runtime has ended meanwhile.
    pub(crate) fn unless_ended<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Result<Poll<T>> {
        catch_unwind(AssertUnwindSafe(poll)).or_else(|panic| match self.usable() {
            Err(error) if self.has_no_runtime() => Err(error.with_unknown_effect()),
            _ => resume_unwind(panic),
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Says of which store an error speaks.
    pub(crate) fn describe(&self, error: Error, name: &LockName) -> Error {
        error.at(&self.store.to_string()).about(name.clone())
    }

    /// The fencing token for a store's number.
    ///
    /// # Errors
    /// `Internal` for a store that breaks its contract: a number outside 1..2^54.
    pub(crate) fn token(&self, raw: u64) -> Result<FencingToken> {
        FencingToken::new(self.settings.epoch, raw).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("{} gave the token {raw}, which is out of range", self.store))
        })
    }

    /// A session of its own. Must be polled to its end.
    pub(crate) async fn open_session(self: &Arc<Self>, spec: &SessionSpec) -> Result<Arc<Session>> {
        let sent = self.clock.now();
        let opened = self.store.open(spec).await?;
        let session = Session::new(spec.clone(), opened.id, opened.ttl, proof_lag(&self.capabilities), sent);
        // However long that took: it is not idle before somebody could use it.
        session.claims.use_now(self.now());
        let session = Arc::new(session);
        lock(&self.open).push(Arc::clone(&session));
        self.publish_state();
        self.runtime.serve(watchdog::run(Arc::downgrade(self), Arc::clone(&session), self.clock.clone()));
        Ok(session)
    }

    /// Forgets a session that nobody uses, and tells the store.
    pub(crate) fn close_session(self: &Arc<Self>, session: &Arc<Session>) {
        session.end();
        self.forget_session(session);
        // The danger that it was in is over.
        self.publish_state();
        let (engine, session) = (Arc::clone(self), Arc::clone(session));
        self.runtime.post(async move {
            // The store lets the session expire if this request did not reach it.
            if let Err(error) = engine.store.close(&session.id, &[]).await {
                tracing::debug!(target: "lockkeeper", %error, "the store did not hear that a session has ended");
            }
        });
    }

    /// The store has forgotten a session: all its locks are lost at once.
    pub(crate) fn expire_session(self: &Arc<Self>, session: &Arc<Session>) {
        self.end_session(session, &LostReason::SessionExpired);
    }

    /// Nothing proves that a session lives: all its locks are lost at once.
    fn end_session(self: &Arc<Self>, session: &Arc<Session>, reason: &LostReason) {
        if !session.end() {
            return;
        }
        self.forget_session(session);
        // Before the losses are told: that takes its time, and a session that is opened meanwhile is the newer word.
        if !session.is_adopted() {
            self.publish_expiry();
        }
        for hold in session.claims.live() {
            self.lose(&hold, reason.clone());
        }
        session.claims.clear();
    }

    fn forget_session(&self, session: &Arc<Session>) {
        lock(&self.open).retain(|open| !Arc::ptr_eq(open, session));
        let mut shared = lock(&self.shared);
        if shared.get(&session.spec).is_some_and(|opening| opening.is(session)) {
            shared.remove(&session.spec);
        }
    }

    pub(crate) fn open_sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.open).clone()
    }

    /// Ends the belief in a claim. A holder's claim is not given away before its lease and its delay are over.
    pub(crate) fn lose(self: &Arc<Self>, hold: &Arc<Hold>, reason: LostReason) {
        hold.lose(reason);
        let held = hold.loss().filter(|_| hold.stage() == hold::Stage::Granted);
        let delay_ends =
            held.is_some_and(|reason| self.keeps_lock_delay(hold, reason)).then(|| Self::end_of_delay(hold));
        if !hold.session.claims.take(hold, self.now(), delay_ends) {
            return;
        }
        if let Some(until) = delay_ends {
            self.deadlines.expect(until);
        }
        if let Some(reason) = held {
            self.report_loss(hold, reason);
        }
    }

    /// Whether the store may still have what was lost, and is to keep it for its delay. A session with such a claim is
    /// not closed, which would free it.
    fn keeps_lock_delay(&self, hold: &Hold, reason: &LostReason) -> bool {
        let absent = matches!(reason, LostReason::Expired | LostReason::Forgotten | LostReason::Removed { .. });
        let gone = absent && !hold.session.expires_as_one();
        let delayed = !hold.session.spec.lock_delay.is_zero();
        (delayed || !gone) && !hold.session.is_over() && !hold.session.is_adopted()
    }

    fn end_of_delay(hold: &Hold) -> Instant {
        let delay = hold.session.spec.lock_delay;
        hold.lease_deadline() + delay + delay / 100
    }

    fn report_loss(&self, hold: &Hold, reason: &LostReason) {
        hold.count_no_more();
        if let Ok(token) = self.token(hold.token()) {
            self.events.emit(&Event::Lost { name: &hold.key.name, token, reason });
        }
    }

    /// The holder is gone in a way that leaves open what it did: the lease and the delay run out.
    pub(crate) fn abandon(self: &Arc<Self>, hold: &Arc<Hold>) {
        let until = Self::end_of_delay(hold);
        hold.session.claims.take(hold, self.now(), Some(until));
        self.deadlines.expect(until);
    }

    /// A claim that is believed in by nobody, but may have to keep others out: it is withdrawn at `until`, and not
    /// before.
    fn keep_in_lock_delay(&self, hold: &Arc<Hold>, until: Instant) {
        if !hold.session.claims.take(hold, self.now(), Some(until)) {
            hold.session.claims.keep_in_lock_delay(hold, until);
        }
        self.deadlines.expect(until);
    }

    pub(crate) fn record_owner(&self, hold: &Arc<Hold>, owner: &Owner) {
        let key = (hold.key.name.clone(), owner.clone());
        lock(&self.owners).entry(key).or_default().push(Arc::clone(hold));
    }

    pub(crate) fn forget_owner(&self, hold: &Arc<Hold>, owner: &Owner) {
        let mut owners = lock(&self.owners);
        let key = (hold.key.name.clone(), owner.clone());
        if let Some(holds) = owners.get_mut(&key) {
            if let Some(at) = holds.iter().position(|held| Arc::ptr_eq(held, hold)) {
                holds.swap_remove(at);
            }
            if holds.is_empty() {
                owners.remove(&key);
            }
        }
    }

    /// Whether a guard of this owner holds the lock. One that is lost holds nothing, though nobody has dropped it.
    pub(crate) fn is_held_by(&self, name: &LockName, owner: &Owner) -> bool {
        let owners = lock(&self.owners);
        owners.get(&(name.clone(), owner.clone())).is_some_and(|holds| holds.iter().any(|hold| !hold.is_dead()))
    }

    #[cfg(feature = "testing")]
    pub(crate) fn leftovers(&self) -> usize {
        let of =
            |s: &Arc<Session>| s.claims.live().len() + s.claims.in_lock_delay().len() + usize::from(s.is_adopted());
        let claims: usize = self.open_sessions().iter().map(of).sum();
        claims + self.queues.len() + self.owner_entries.len() + lock(&self.owners).len()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl Drop for Engine {
    /// The last keeper and the last guard are gone: so are all claims. The sessions are closed, as well as that goes.
    fn drop(&mut self) {
        if !self.usable_here() {
            return;
        }
        self.deadlines.wake();
        for session in self.open_sessions() {
            if session.end() && session.claims.in_lock_delay().is_empty() && !session.is_adopted() {
                let (store, id) = (Arc::clone(&self.store), session.id.clone());
                self.runtime.post(async move {
                    let _ = store.close(&id, &[]).await;
                });
            }
            session.claims.clear();
        }
    }
}
