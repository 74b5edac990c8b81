//! One attempt to acquire, from the request to the grant.
//!
//! The attempt is one future that owns all it needs. The caller polls the future in place. A caller
//! that is dropped hands the future to the engine, which polls it to its end. So no store call is
//! ever cancelled half-way, and an unneeded claim is withdrawn.

use std::sync::Arc;
use std::time::Duration;

use super::control::AttemptControl;
use super::limits::{CLAIM_IDS, CLAIM_PAUSE_MAX};
use super::outcome::{BusyLine, Outcome, PendingClaim};
use super::turn::Turn;
use super::{Engine, Granted, Hold, Request, Session};
use crate::event::Event;
use crate::random::jittered;
use crate::store::{ClaimId, ClaimKey, Meta};
use crate::time::Instant;
use crate::{Error, ErrorKind, Result};

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Request,
    pub(crate) control: Arc<AttemptControl>,
    pub(crate) began: Instant,
}

/// How far an attempt has come.
struct Progress {
    turn: Option<Turn>,
    /// How many ids of the attempt were retired.
    ids: u32,
    /// How often the attempt has asked the store since the last answer. The count goes on with the
    /// next id: a store may be silent for longer than a claim lives.
    tries: u32,
}

impl Attempt {
    /// The whole attempt. It must be polled to its end. A busy lock is a `Timeout` if the request
    /// does not wait.
    pub(crate) async fn run(&self) -> Result<Granted> {
        self.engine.usable()?;
        match &self.request.owner {
            Some(owner) if self.request.reenters => self.reenter(owner).await,
            _ => self.acquire_alone().await,
        }
    }

    /// Acquires the lock with a claim of its own, unless the claim would wait for one of the same
    /// owner.
    pub(super) async fn acquire_alone(&self) -> Result<Granted> {
        if !self.would_wait_for_itself() {
            return self.acquire().await;
        }
        if self.request.is_exclusive() {
            return Err(self.would_deadlock());
        }
        // A reader may hold beside itself, and permits beside others: only the wait is refused.
        let trying =
            Self { request: Request { queue: false, ..self.request.clone() }, ..self.clone() };
        trying.acquire().await.map_err(|error| match error.kind() {
            ErrorKind::Timeout => self.would_deadlock(),
            _ => error,
        })
    }

    async fn acquire(&self) -> Result<Granted> {
        let turn = self.turn().await?;
        match turn.as_ref().map(Turn::pulse) {
            Some(pulse) => pulse.beside(self.acquire_in(turn)).await,
            None => self.acquire_in(turn).await,
        }
    }

    /// Acquires the lock in this turn, or without a turn.
    async fn acquire_in(&self, turn: Option<Turn>) -> Result<Granted> {
        let mut progress = Progress { turn, ids: 0, tries: 0 };
        loop {
            if self.is_stopped() {
                return Err(self.gave_up());
            }
            let pending = self.next_claim(&mut progress).await?;
            if let Some(granted) = self.acquire_with(pending, &mut progress).await? {
                return Ok(granted);
            }
        }
    }

    /// The claim that the previous task has left, or a new one.
    async fn next_claim(&self, progress: &mut Progress) -> Result<PendingClaim> {
        let (hold, sent) = match progress.turn.as_mut().and_then(Turn::take_claim) {
            Some(left) => {
                self.relabel(&left).await;
                (left, true)
            }
            None => (self.new_claim().await?, false),
        };
        Ok(PendingClaim { hold, sent, tries: progress.tries })
    }

    /// Pursues one claim to its end; `None` if the attempt goes on with another claim.
    async fn acquire_with(
        &self,
        mut pending: PendingClaim,
        progress: &mut Progress,
    ) -> Result<Option<Granted>> {
        let outcome = self.pursue(&mut pending).await;
        progress.tries = pending.tries;
        let PendingClaim { hold, sent, .. } = pending;
        let died = match outcome {
            Outcome::Granted => match self.grant_to_caller(hold).await? {
                Some(granted) => return Ok(Some(granted)),
                None => true,
            },
            Outcome::Retired => {
                let died = hold.is_dead();
                self.withdraw_unneeded(&hold);
                died
            }
            Outcome::Busy(line) => return self.stay_outside(&hold, line).await.map(|()| None),
            Outcome::GivenUp => return Err(self.leave(progress.turn.take(), &hold)),
            Outcome::Failed(error) if !sent => return Err(self.refused(&hold, error)),
            Outcome::Failed(error) => return Err(self.fail(&hold, error)),
        };
        self.go_on(progress, died).await?;
        Ok(None)
    }

    /// Waits outside the line that has turned the claim away, if the request waits.
    async fn stay_outside(&self, hold: &Arc<Hold>, line: BusyLine) -> Result<()> {
        self.turned_away(hold);
        if !self.request.queue {
            return Err(self.busy());
        }
        self.wait_outside(line).await;
        Ok(())
    }

    /// The id was retired, and the attempt takes another one. After many ids, an attempt that stood
    /// in line may lose its place again and again, but not without a pause.
    async fn go_on(&self, progress: &mut Progress, died: bool) -> Result<()> {
        if self.request.replaces.is_some() {
            return Err(self.replaced_by_nothing());
        }
        progress.ids += 1;
        if progress.ids < CLAIM_IDS {
            return Ok(());
        }
        if self.control.was_in_line() {
            self.pause(jittered(CLAIM_PAUSE_MAX)).await;
            return Ok(());
        }
        let error = if died {
            Error::new(
                ErrorKind::Unavailable,
                format!("{CLAIM_IDS} claims in a row died before they were answered"),
            )
            .with_remedy("a longer ttl: the store takes longer to answer than a claim lives")
        } else {
            Error::new(
                ErrorKind::Internal,
                format!("{CLAIM_IDS} claims in a row were refused as retired"),
            )
        };
        Err(self.engine.describe(error, &self.request.name))
    }

    fn would_wait_for_itself(&self) -> bool {
        let Request { name, owner, queue, .. } = &self.request;
        *queue && owner.as_ref().is_some_and(|owner| self.engine.owners.hold(name, owner))
    }

    /// Of the tasks that want the same exclusive lock, one at a time stands in line.
    async fn turn(&self) -> Result<Option<Turn>> {
        let Request { name, spec, fixed, value, .. } = &self.request;
        // A candidate shows its own value, so its claim cannot serve another task.
        if !self.waits_in_line() || *fixed || value.is_some() || !self.request.is_exclusive() {
            return Ok(None);
        }
        let joined = |waiters| {
            self.control.set_waiting(&self.engine.events, name);
            self.engine.events.emit(&Event::Contended { name, waiters });
        };
        tokio::select! {
            biased;
            () = self.stopped() => Err(self.gave_up()),
            turn = self.engine.turn(name, spec, joined) => Ok(turn),
        }
    }

    /// A claim with a new id, in the session as it is now.
    async fn new_claim(&self) -> Result<Arc<Hold>> {
        let mut tries = 0;
        loop {
            // This attempt polls an opening of its own to its end. The opening of a shared session
            // goes on by itself.
            let hold = tokio::select! {
                biased;
                () = self.stopped(), if !self.request.fixed => return Err(self.gave_up()),
                hold = self.new_hold() => hold,
            };
            match hold {
                Ok(hold) => return Ok(hold),
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
            let key = ClaimKey {
                name: self.request.name.clone(),
                session: session.id.clone(),
                id: ClaimId::random(),
            };
            let hold = Arc::new(Hold::new(key, Arc::clone(&session), self.engine.clock.clone()));
            if self.request.fixed {
                hold.stop_renewing();
            }
            if self.request.replaces.is_some() {
                // Only the attempt knows whether the withdrawal has to keep a lock-delay.
                hold.begin_release();
            }
            if session.claims.add(&hold, self.engine.now()) {
                self.engine.deadlines.expect(hold.deadline());
                return Ok(hold);
            }
        }
    }

    async fn session(&self) -> Result<Arc<Session>> {
        if let Some(old) = &self.request.replaces {
            old.check()?;
            if !self.request.fixed {
                return Ok(Arc::clone(&old.session));
            }
        }
        if !self.request.fixed {
            return self.engine.session(&self.request.spec).await;
        }
        let session = self.engine.open_session(&self.request.spec).await?;
        session.fix();
        Ok(session)
    }

    /// Whether the attempt waits in line: not if it is unfair, nor if the store keeps no line.
    pub(super) fn waits_in_line(&self) -> bool {
        self.request.queue && !self.request.unfair && self.engine.capabilities.queue
    }

    /// Replaces the reason of another task in a claim that this task has left.
    async fn relabel(&self, hold: &Hold) {
        if self.request.reason.is_none() || !self.engine.capabilities.amend {
            return;
        }
        let change = crate::store::Amend::Meta(self.meta());
        if let Err(error) =
            self.engine.store.amend(&hold.key, hold.next_change(true), &change).await
        {
            tracing::debug!(target: "lockkeeper", lock = %hold.key.name, %error, "the reason was not updated");
        }
    }

    pub(super) fn meta(&self) -> Meta {
        let settings = &self.engine.settings;
        Meta {
            owner: Arc::clone(&settings.owner),
            reason: self.request.reason.clone(),
            value: self.request.value.clone(),
            epoch: settings.epoch,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.control.is_over() || self.engine.lifetime.is_closed()
    }

    pub(super) async fn stopped(&self) {
        tokio::select! {
            () = self.control.over() => {}
            () = self.engine.lifetime.closed() => {}
        }
    }

    pub(super) async fn pause(&self, d: Duration) {
        tokio::select! {
            () = self.stopped() => {}
            () = self.engine.clock.sleep(d) => {}
        }
    }
}
