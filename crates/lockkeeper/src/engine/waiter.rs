//! One attempt to acquire: claim, wait, claim again, until it holds, gives up, or is given up.
//!
//! The attempt is one future that owns all it needs. The caller polls it in place; a caller that goes away hands it
//! to the engine, which polls it to its end, so that no store call is ever cancelled half-way and whatever was
//! claimed is withdrawn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::hold::Stage;
use super::local_queue::Turn;
use super::session::lock;
use super::{Engine, Hold, Session};
use crate::event::Event;
use crate::random::jittered;
use crate::store::{Claim, ClaimId, ClaimKey, Interest, MAX, Meta, Revision, SessionSpec, Verdict, Wake};
use crate::time::Instant;
use crate::{Effect, Error, ErrorKind, FencingToken, LockName, Owner, Result};

/// How often a store is asked that has never answered.
const TRIES: u32 = 4;
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How many ids one attempt may spend without having waited in between: more is a store that breaks its contract.
const IDS: u32 = 10;

/// What an attempt asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: LockName,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) spec: SessionSpec,
    /// Whether it waits when the lock is busy.
    pub(crate) queue: bool,
    /// A session of its own that is not renewed after the grant.
    pub(crate) fixed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) owner: Option<Owner>,
    pub(crate) reason: Option<Arc<str>>,
}

/// A claim that holds the lock, on its way to becoming a guard. Dropped before that, it is withdrawn.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) engine: Arc<Engine>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    taken: bool,
}

impl Granted {
    pub(crate) fn take(mut self) -> (Arc<Engine>, Arc<Hold>, FencingToken) {
        self.taken = true;
        (Arc::clone(&self.engine), Arc::clone(&self.hold), self.token)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if !self.taken && !self.hold.is_forked() {
            self.engine.withdraw_later(&self.hold);
        }
    }
}

/// What an attempt and its caller tell each other.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    given_up: AtomicBool,
    bell: Notify,
    answered: AtomicBool,
    in_line: AtomicBool,
    last_error: Mutex<Option<Error>>,
}

impl Patience {
    /// The caller does not want it any more.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    fn is_over(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    async fn over(&self) {
        let bell = self.bell.notified();
        tokio::pin!(bell);
        bell.as_mut().enable();
        if !self.is_over() {
            bell.await;
        }
    }

    /// Whether the store has said that others hold the lock. Until then a wait is not what takes the time.
    pub(crate) fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether it has stood in the store's line: such an attempt outlasts an outage. Waiting behind a task of the same
    /// process says nothing about the store.
    fn was_in_line(&self) -> bool {
        self.in_line.load(Ordering::Acquire)
    }

    pub(crate) fn last_error(&self) -> Option<Error> {
        lock(&self.last_error).clone()
    }
}

/// One attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Request,
    pub(crate) patience: Arc<Patience>,
    pub(crate) began: Instant,
}

/// What became of one id.
enum Outcome {
    Granted,
    Busy,
    /// The id is spent; the attempt goes on with another.
    Spent,
    GivenUp,
    Failed(Error),
}

/// A claim in progress.
struct Standing {
    hold: Arc<Hold>,
    /// Whether the store may know it.
    sent: bool,
    tries: u32,
}

impl Attempt {
    /// The whole attempt. Must be polled to its end; `None` when the lock is busy and the request does not wait.
    pub(crate) async fn run(self) -> Result<Option<Granted>> {
        self.engine.usable()?;
        self.refuse_deadlock()?;
        let mut turn = self.turn().await?;
        let mut ids = 0;
        loop {
            if self.is_stopped() {
                return Err(self.gave_up());
            }
            let left = turn.as_mut().and_then(Turn::take_place);
            let adopted = left.is_some();
            let mut standing = match left {
                Some(hold) => Standing { hold, sent: true, tries: 0 },
                None => self.new_claim().await?,
            };
            if adopted {
                self.relabel(&standing.hold).await;
            }
            match self.stand(&mut standing).await {
                Outcome::Granted => match self.hand_out(standing.hold).await? {
                    Some(granted) => return Ok(Some(granted)),
                    None => ids += 1,
                },
                Outcome::Busy => return self.busy(&standing.hold),
                Outcome::Spent => {
                    self.engine.withdraw_later(&standing.hold);
                    ids += 1;
                }
                Outcome::GivenUp => return Err(self.leave(turn, &standing.hold)),
                Outcome::Failed(error) => return Err(self.fail(&standing, error)),
            }
            if ids >= IDS {
                self.slow_down().await?;
            }
        }
    }

    /// Many ids were spent. One that stood in line may lose its place again and again, but not in a hurry.
    async fn slow_down(&self) -> Result<()> {
        if self.patience.was_in_line() {
            self.pause(jittered(RETRY_MAX)).await;
            return Ok(());
        }
        let error = Error::new(ErrorKind::Internal, format!("{IDS} claims in a row were refused as spent"));
        Err(self.engine.describe(error, &self.request.name))
    }

    fn refuse_deadlock(&self) -> Result<()> {
        let Request { name, owner, queue, .. } = &self.request;
        match owner {
            Some(owner) if *queue && self.engine.owns(name, owner) => {
                Err(Error::new(ErrorKind::WouldDeadlock, "the same owner holds it in this process")
                    .with_remedy("to hand the guard down, or a reentrant mutex")
                    .about(name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Tasks that want the same exclusive lock stand in line one at a time.
    async fn turn(&self) -> Result<Option<Turn>> {
        let Request { name, spec, queue, fixed, weight, capacity, .. } = &self.request;
        if !queue || *fixed || (*weight, *capacity) != (MAX, MAX) {
            return Ok(None);
        }
        let joined = |waiters| {
            self.patience.answered.store(true, Ordering::Release);
            self.engine.events.emit(&Event::Contended { name, waiters });
        };
        tokio::select! {
            biased;
            () = self.stopped() => Err(self.gave_up()),
            turn = self.engine.turn(name, spec, joined) => Ok(Some(turn)),
        }
    }

    /// A new id, in the session as it is now.
    async fn new_claim(&self) -> Result<Standing> {
        let mut tries = 0;
        loop {
            match self.new_hold().await {
                Ok(hold) => return Ok(Standing { hold, sent: false, tries: 0 }),
                Err(error) => {
                    tries += 1;
                    self.pause_or_fail(error, tries).await?;
                }
            }
        }
    }

    async fn new_hold(&self) -> Result<Arc<Hold>> {
        loop {
            let session = self.session().await?;
            let key = ClaimKey { name: self.request.name.clone(), session: session.id.clone(), id: ClaimId::random() };
            let hold = Arc::new(Hold::new(key, Arc::clone(&session), self.engine.clock.clone()));
            if self.request.fixed {
                hold.stop_renewing();
            }
            if session.add(&hold, self.engine.now()) {
                return Ok(hold);
            }
        }
    }

    async fn session(&self) -> Result<Arc<Session>> {
        if !self.request.fixed {
            return self.engine.session(&self.request.spec).await;
        }
        let session = self.engine.open_session(&self.request.spec).await?;
        session.fix();
        Ok(session)
    }

    /// Sends the claim until it is settled, and waits in line.
    async fn stand(&self, standing: &mut Standing) -> Outcome {
        loop {
            let hold = &standing.hold;
            if hold.is_dead() {
                return Outcome::Spent;
            }
            if hold.stage() == Stage::Granted {
                return Outcome::Granted;
            }
            if self.is_stopped() {
                return Outcome::GivenUp;
            }
            let sent = self.engine.now();
            let claim = self.claim(hold, standing.sent);
            standing.sent = true;
            let answer = self.engine.store.claim(&claim).await;
            let next = match answer {
                Ok(verdict) => self.judge(hold, verdict, sent).await,
                Err(error) => self.retry(standing, error).await,
            };
            if let Some(outcome) = next {
                return outcome;
            }
        }
    }

    fn claim(&self, hold: &Hold, resend: bool) -> Claim {
        let Request { spec, weight, capacity, queue, .. } = &self.request;
        Claim {
            key: hold.key.clone(),
            ttl: hold.session.ttl,
            wait_ttl: hold.session.wait_ttl,
            lock_delay: spec.lock_delay,
            weight: *weight,
            capacity: *capacity,
            queue: *queue,
            resend,
            replaces: None,
            max_waiters: self.engine.settings.max_waiters,
            meta: self.meta(),
        }
    }

    fn meta(&self) -> Meta {
        let settings = &self.engine.settings;
        Meta {
            owner: Arc::clone(&settings.owner),
            reason: self.request.reason.clone(),
            value: None,
            epoch: settings.epoch,
        }
    }

    /// `None`: look again.
    async fn judge(&self, hold: &Arc<Hold>, verdict: Verdict, sent: Instant) -> Option<Outcome> {
        match verdict {
            Verdict::Granted { token, .. } => {
                let alive = hold.granted(token, hold.session.proven_until(sent));
                self.engine.plan(hold, sent, hold.session.ttl / 3);
                Some(if alive { Outcome::Granted } else { Outcome::Spent })
            }
            Verdict::Queued { ahead, seen, look_again } => {
                let first = hold.stage() == Stage::InFlight;
                if !hold.queued(sent) {
                    return Some(Outcome::Spent);
                }
                self.patience.answered.store(true, Ordering::Release);
                self.patience.in_line.store(true, Ordering::Release);
                self.engine.plan(hold, sent, hold.session.wait_ttl / 3);
                if first {
                    self.engine.events.emit(&Event::Queued { name: &hold.key.name, ahead });
                }
                self.wait(hold, seen, look_again).await
            }
            Verdict::Busy { .. } => Some(Outcome::Busy),
            Verdict::Gone => Some(Outcome::Spent),
        }
    }

    /// Waits in line until it is worth while to claim again.
    async fn wait(&self, hold: &Arc<Hold>, seen: Revision, look_again: Duration) -> Option<Outcome> {
        let wake = tokio::select! {
            biased;
            () = self.stopped() => return Some(Outcome::GivenUp),
            () = hold.settled() => return None,
            wake = self.engine.store.wait(Interest::Claim(&hold.key), seen, look_again) => wake,
        };
        match wake {
            Ok(Wake::Granted { token }) => Some(self.pushed(hold, token).await),
            Ok(Wake::Changed | Wake::Elapsed) => None,
            Err(error) => {
                tracing::debug!(target: "lockkeeper", lock = %hold.key.name, %error, "waiting failed");
                self.pause(jittered(RETRY_MIN * 2)).await;
                None
            }
        }
    }

    /// The store granted it by itself. That gives no new time, so it is renewed at once; with a lock-delay, or a
    /// fixed lease, it is not handed out before the store has acknowledged its whole life.
    async fn pushed(&self, hold: &Arc<Hold>, token: u64) -> Outcome {
        if !hold.pushed(token) {
            return Outcome::Spent;
        }
        if self.request.spec.lock_delay.is_zero() && !self.request.fixed {
            hold.set_due(Some(self.engine.now()));
            hold.session.nudge(self.engine.now());
            return Outcome::Granted;
        }
        self.confirm(hold).await
    }

    /// Renews until the store has acknowledged that the claim has its whole life.
    async fn confirm(&self, hold: &Arc<Hold>) -> Outcome {
        hold.set_due(None);
        while self.engine.renew(&hold.session, std::slice::from_ref(hold)).await.is_err() {
            if hold.is_dead() {
                return Outcome::Spent;
            }
            self.engine.clock.sleep(jittered(RETRY_MIN)).await;
        }
        if hold.is_dead() { Outcome::Spent } else { Outcome::Granted }
    }

    /// `None`: send it again.
    async fn retry(&self, standing: &mut Standing, error: Error) -> Option<Outcome> {
        if error.effect() == Effect::Unknown {
            standing.hold.mark_unsettled();
        }
        match error.kind() {
            ErrorKind::SessionLost => {
                self.engine.expire_session(&standing.hold.session);
                return Some(Outcome::Spent);
            }
            ErrorKind::Unavailable => {}
            _ => return Some(Outcome::Failed(error)),
        }
        standing.tries += 1;
        match self.pause_or_fail(error, standing.tries).await {
            Ok(()) => None,
            // Its place, if it has one, is the next task's.
            Err(_) if self.is_stopped() => Some(Outcome::GivenUp),
            Err(error) => Some(Outcome::Failed(error)),
        }
    }

    /// Before the store has ever answered an attempt fails after a few tries; one that stands in line goes on for as
    /// long as it may wait.
    async fn pause_or_fail(&self, error: Error, tries: u32) -> Result<()> {
        let temporary = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::SessionLost);
        if !temporary || (tries >= TRIES && !self.patience.was_in_line()) {
            return Err(if temporary { self.unreachable(&error, tries) } else { error });
        }
        *lock(&self.patience.last_error) = Some(error);
        self.pause(jittered(RETRY_MIN * 2_u32.pow(tries.min(6))).min(RETRY_MAX)).await;
        if self.is_stopped() { Err(self.gave_up()) } else { Ok(()) }
    }

    fn unreachable(&self, error: &Error, tries: u32) -> Error {
        let took = self.engine.now().saturating_since(self.began);
        let mut unreachable = Error::new(
            ErrorKind::Unavailable,
            format!(
                "{} could not be used within {:.1} s ({tries} tries): {}",
                self.engine.store,
                took.as_secs_f32(),
                error.message()
            ),
        );
        if let Some(remedy) = error.remedy() {
            unreachable = unreachable.with_remedy(remedy);
        }
        if error.effect() == Effect::Unknown { unreachable.with_unknown_effect() } else { unreachable }
    }

    /// Makes a guard of it, unless its time was over before it got here.
    async fn hand_out(&self, hold: Arc<Hold>) -> Result<Option<Granted>> {
        if self.request.fixed && self.engine.now() + hold.session.ttl / 10 * 9 > hold.lease_deadline() {
            // Where life belongs to the session, the grant has what is left of it: the fixed lease begins now.
            if let Outcome::Spent = self.confirm(&hold).await {
                self.engine.withdraw_later(&hold);
                return Ok(None);
            }
        }
        if hold.is_dead() {
            self.engine.withdraw_later(&hold);
            return Ok(None);
        }
        let engine = Arc::clone(&self.engine);
        let token = match engine.token(hold.token()) {
            Ok(token) => token,
            Err(error) => {
                engine.withdraw_later(&hold);
                return Err(error.about(self.request.name.clone()));
            }
        };
        if let Some(max_hold) = self.request.max_hold {
            hold.end_at(engine.now() + max_hold);
            engine.deadlines.expect(hold.deadline());
        }
        Ok(Some(Granted { engine, hold, token, taken: false }))
    }

    fn busy(&self, hold: &Arc<Hold>) -> Result<Option<Granted>> {
        hold.session.forget(hold, self.engine.now());
        if self.request.fixed {
            self.engine.close_session(&hold.session);
        }
        Ok(None)
    }

    /// Gives the place to the next task of this process, or leaves the line.
    fn leave(&self, turn: Option<Turn>, hold: &Arc<Hold>) -> Error {
        let inherited = turn.is_some_and(|mut turn| !hold.is_dead() && turn.leave_place(hold));
        if !inherited {
            self.engine.withdraw_later(hold);
        }
        self.gave_up()
    }

    fn fail(&self, standing: &Standing, error: Error) -> Error {
        self.engine.withdraw_later(&standing.hold);
        self.engine.describe(error, &self.request.name)
    }

    /// A claim that another task left shows that task's reason.
    async fn relabel(&self, hold: &Hold) {
        if self.request.reason.is_none() || !self.engine.capabilities.amend {
            return;
        }
        let change = crate::store::Amend::Meta(self.meta());
        if let Err(error) = self.engine.store.amend(&hold.key, &change).await {
            tracing::debug!(target: "lockkeeper", lock = %hold.key.name, %error, "the reason was not updated");
        }
    }

    fn is_stopped(&self) -> bool {
        self.patience.is_over() || self.engine.is_closed()
    }

    async fn stopped(&self) {
        tokio::select! {
            () = self.patience.over() => {}
            () = self.engine.closing() => {}
        }
    }

    async fn pause(&self, d: Duration) {
        tokio::select! {
            () = self.stopped() => {}
            () = self.engine.clock.sleep(d) => {}
        }
    }

    fn gave_up(&self) -> Error {
        match self.engine.usable() {
            Err(error) => error.about(self.request.name.clone()),
            Ok(()) => Error::new(ErrorKind::Timeout, "others held it for as long as the attempt was to wait")
                .with_remedy("a longer wait, or inspect it to see who holds it")
                .about(self.request.name.clone()),
        }
    }
}
