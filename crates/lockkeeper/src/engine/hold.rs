//! One claim, as its client believes in it: the deadline, and the reason of its end.

mod asked;
mod belief;
mod loss;
mod share;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use self::belief::Belief;
pub(crate) use self::share::Share;
use super::lock::lock;
use super::session::Session;
use crate::metrics::Counted;
use crate::random;
use crate::store::{Asked, CHANGE_MAX, ClaimKey, LiveState};
use crate::time::{Clock, Instant};

const NEVER: u64 = u64::MAX;
/// The value of `offered` for a claim that was granted and collected.
const COLLECTED: u64 = u64::MAX - 1;
/// The numbers of changes grow by up to this much with each change.
const CHANGE_STEP: u64 = 1 << 20;
/// A higher number than a process reaches with its changes of one claim.
const CHANGES_OF_OTHERS: u64 = 1 << 44;

/// The stage of a claim, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// No request of the claim was answered.
    InFlight,
    /// The claim waits.
    Queued,
    /// The claim was granted.
    Granted,
}

/// A claim of this process.
///
/// The deadline only ever rises, and never after it has passed: a claim that is dead stays dead,
/// whatever a late reply says.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) key: ClaimKey,
    pub(crate) session: Arc<Session>,
    clock: Clock,
    /// The ttl that the store keeps for the claim, in ns; never longer than the ttl of the session.
    ttl: AtomicU64,
    /// The number of the last change of the claim, and of the last change of its value or reason.
    changes: AtomicU64,
    shown: AtomicU64,
    stage: AtomicU8,
    belief: Belief,
    token: AtomicU64,
    unsettled: AtomicBool,
    renews: AtomicBool,
    /// The last renewal of several claims was answered for the others, and not for this claim.
    left_out: AtomicBool,
    /// Another claim is being sent to replace this one: the store may no longer have it.
    replacing: AtomicBool,
    /// Since when the granted claim waits for its attempt to collect it.
    offered: AtomicU64,
    /// The number of guards that share the claim through another attempt. While there is one, the
    /// claim is not left.
    shared: AtomicUsize,
    /// A task already withdraws the claim.
    release_begun: AtomicBool,
    /// The last request for the lock, and when it arrived.
    asked: Mutex<Option<(Asked, Instant)>>,
    changed: Notify,
    /// Counts the claim as held, for as long as a guard has it and it is not lost.
    counted: Mutex<Option<Counted>>,
}

impl Hold {
    /// A claim whose first request is about to be sent. The sending counts as acknowledged: without
    /// an answer, the id dies after a waiter's life.
    pub(crate) fn new(key: ClaimKey, session: Arc<Session>, clock: Clock) -> Self {
        let belief = Belief::until(session.waits_until(clock.now()));
        Self::at(Stage::InFlight, belief, key, session, clock)
    }

    /// A claim that another process was granted and has detached. The client believes in it only
    /// after a renewal.
    pub(super) fn adopted(key: ClaimKey, token: u64, session: Arc<Session>, clock: Clock) -> Self {
        let hold = Self::at(Stage::Granted, Belief::unproven(), key, session, clock);
        hold.token.store(token, Ordering::Release);
        // The process that detached the claim may have changed it, and the store takes no number
        // twice.
        hold.changes.store(CHANGES_OF_OTHERS + random::below(CHANGE_MAX / 2), Ordering::Release);
        hold.stop_renewing();
        hold.collect();
        hold
    }

    fn at(
        stage: Stage,
        belief: Belief,
        key: ClaimKey,
        session: Arc<Session>,
        clock: Clock,
    ) -> Self {
        Self {
            key,
            ttl: AtomicU64::new(nanos(session.ttl)),
            changes: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            session,
            clock,
            stage: AtomicU8::new(stage as u8),
            belief,
            token: AtomicU64::new(0),
            unsettled: AtomicBool::new(false),
            renews: AtomicBool::new(true),
            left_out: AtomicBool::new(false),
            replacing: AtomicBool::new(false),
            offered: AtomicU64::new(NEVER),
            shared: AtomicUsize::new(0),
            release_begun: AtomicBool::new(false),
            asked: Mutex::default(),
            changed: Notify::new(),
            counted: Mutex::new(None),
        }
    }

    /// Counts the claim as held from now on.
    pub(crate) fn count(&self, counted: Counted) {
        let counted = (!self.is_dead()).then_some(counted);
        let _before = std::mem::replace(&mut *lock(&self.counted), counted);
    }

    /// No longer counts the claim as held.
    pub(crate) fn count_no_more(&self) {
        // The recorder of metrics is called after the mutex is free.
        let _counted = lock(&self.counted).take();
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::InFlight,
            1 => Stage::Queued,
            _ => Stage::Granted,
        }
    }

    pub(crate) fn live_state(&self) -> LiveState {
        match self.stage() {
            Stage::InFlight => LiveState::InFlight,
            Stage::Queued => LiveState::Queued,
            Stage::Granted if self.is_being_replaced() => LiveState::InFlight,
            Stage::Granted => LiveState::Granted,
        }
    }

    /// Marks the claim as being withdrawn; returns whether it was not so before.
    pub(super) fn begin_release(&self) -> bool {
        !self.release_begun.swap(true, Ordering::AcqRel)
    }

    pub(super) fn set_left_out(&self, it_is: bool) {
        self.left_out.store(it_is, Ordering::Release);
    }

    pub(super) fn is_left_out(&self) -> bool {
        self.left_out.load(Ordering::Acquire)
    }

    pub(super) fn set_being_replaced(&self, it_is: bool) {
        self.replacing.store(it_is, Ordering::Release);
    }

    pub(super) fn is_being_replaced(&self) -> bool {
        self.replacing.load(Ordering::Acquire)
    }

    /// Ends the hold no later than the `max_hold` of the other claim.
    pub(super) fn end_with(&self, other: &Self) {
        self.belief.end_with(&other.belief);
    }

    /// The raw token, once the claim was granted.
    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    /// A reply to a request sent at `sent` found the claim waiting.
    pub(crate) fn queued(&self, sent: Instant) -> bool {
        let alive = self.raise(self.session.waits_until(sent));
        // A late reply, overtaken by a grant, does not take the grant back.
        let (from, to) = (Stage::InFlight as u8, Stage::Queued as u8);
        let _ = self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        alive
    }

    /// The ttl that the store keeps for the claim, as far as the store has answered.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    /// Notes the ttl that the store keeps. Returns the end of a life with the ttl that counts, the
    /// shorter one; `until` is the end of the same life with the ttl of the session.
    pub(crate) fn keeps(&self, ttl: Duration, until: Instant) -> Instant {
        self.ttl.fetch_min(nanos(ttl), Ordering::AcqRel);
        self.session.until_with(self.ttl(), until)
    }

    /// The deadline, if a request sent at `sent` finds the claim granted.
    pub(crate) fn proven_until(&self, sent: Instant) -> Instant {
        self.session.until_with(self.ttl(), self.session.proven_until(sent))
    }

    /// The number of the next change of the claim. `shows`: the change replaces the value or the
    /// reason. Two processes that know the same last number must not send different changes with
    /// the same next number, so the step is random.
    pub(super) fn next_change(&self, shows: bool) -> u64 {
        let step = 1 + random::below(CHANGE_STEP);
        let number = self.changes.fetch_add(step, Ordering::AcqRel) + step;
        if shows {
            self.shown.fetch_max(number, Ordering::AcqRel);
        }
        number
    }

    /// The store has applied a change with this number to the claim.
    pub(super) fn was_changed(&self, number: u64) {
        self.changes.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether this client has replaced the value or the reason again since that change.
    pub(super) fn shows_later(&self, number: u64) -> bool {
        self.shown.load(Ordering::Acquire) > number
    }

    /// A reply found the claim granted, and proves its life until `until`.
    pub(crate) fn granted(&self, token: u64, until: Instant) -> bool {
        self.raise(until) && self.pushed(token)
    }

    /// The store has reported the grant without a request: the report proves no new time.
    pub(crate) fn pushed(&self, token: u64) -> bool {
        if self.is_dead() {
            return false;
        }
        self.token.store(token, Ordering::Release);
        // The offer is stored before the stage, and only once: a collected claim is not offered
        // again.
        let now = self.clock.now().as_nanos();
        let _ = self.offered.compare_exchange(NEVER, now, Ordering::AcqRel, Ordering::Acquire);
        self.stage.store(Stage::Granted as u8, Ordering::Release);
        self.changed.notify_waiters();
        true
    }

    /// Raises the deadline, unless it has passed.
    pub(crate) fn raise(&self, until: Instant) -> bool {
        if self.is_dead() {
            return false;
        }
        self.belief.raise(until);
        true
    }

    /// Ends the hold at `at`, even if it is renewed.
    pub(crate) fn end_at(&self, at: Instant) {
        self.belief.end_at(at);
    }

    /// The end of the lease that the client may believe in.
    pub(crate) fn lease_deadline(&self) -> Instant {
        self.belief.lease_deadline()
    }

    /// Whether any request of this process has found the claim in the store.
    pub(crate) fn is_proven(&self) -> bool {
        self.belief.is_proven()
    }

    /// When the client stops believing in the claim.
    pub(crate) fn deadline(&self) -> Instant {
        self.belief.deadline()
    }

    /// Whether this process is a fork of the process that made the claim. The engine's threads do
    /// not exist in a fork.
    pub(crate) fn is_forked(&self) -> bool {
        !self.session.process.is_this()
    }

    /// Some request of the claim has no answer, or an answer of unknown effect.
    pub(crate) fn mark_unsettled(&self) {
        self.unsettled.store(true, Ordering::Release);
    }

    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire)
    }

    /// From now on the claim is renewed while it waits and once at the grant, and never again.
    pub(crate) fn stop_renewing(&self) {
        self.renews.store(false, Ordering::Release);
    }

    /// From now on the claim is renewed until that is [stopped](Self::stop_renewing) again.
    pub(super) fn go_on_renewing(&self) {
        self.renews.store(true, Ordering::Release);
    }

    pub(crate) fn renews(&self) -> bool {
        self.renews.load(Ordering::Acquire)
    }

    /// Whether the claim is renewed at its present stage.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renews() || self.stage() != Stage::Granted
    }

    /// `every`, shortened by up to a fifth that differs from claim to claim. It comes from the id,
    /// which is random.
    pub(crate) fn spread(&self, every: Duration) -> Duration {
        let part = u32::from(self.key.id.as_bytes()[0]);
        every - every / 5 * part / 255
    }
}

fn instant(nanos: u64) -> Option<Instant> {
    (nanos != NEVER).then(|| Instant::from_nanos(nanos))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
