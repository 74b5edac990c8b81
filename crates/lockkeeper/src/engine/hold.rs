//! One claim, as its client believes in it: the deadline, and what ended it.

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
/// It was granted, and collected.
const COLLECTED: u64 = u64::MAX - 1;
/// The numbers of changes grow by up to this much with each change.
const CHANGE_STEP: u64 = 1 << 20;
/// A higher number than a process reaches with its changes of one claim.
const CHANGES_OF_OTHERS: u64 = 1 << 44;

/// Where a claim stands, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// No request of it was answered.
    InFlight,
    /// It waits.
    Queued,
    /// It was granted.
    Granted,
}

/// A claim of this process.
///
/// Its deadline only ever rises, and never after it has passed: dead is dead, whatever any late
/// reply says.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) key: ClaimKey,
    pub(crate) session: Arc<Session>,
    clock: Clock,
    /// The ttl that the store keeps for it, in ns, and never more than that of the session.
    ttl: AtomicU64,
    /// The number of its last change, and of the last one that replaced what it shows.
    changes: AtomicU64,
    shown: AtomicU64,
    stage: AtomicU8,
    belief: Belief,
    token: AtomicU64,
    unsettled: AtomicBool,
    renews: AtomicBool,
    /// The last renewal of others that it travelled with was answered, and this one was not.
    left_out: AtomicBool,
    /// A claim that is to take its place is under way: the store may have it no more.
    replacing: AtomicBool,
    /// Since when it waits, granted, for its attempt to collect it.
    offered: AtomicU64,
    /// The guards that came to it through another attempt than its own: while one has it, it is not
    /// left.
    shared: AtomicUsize,
    /// Somebody sees to it that the store gives it back.
    release_begun: AtomicBool,
    /// Who asks for the lock, if anybody does, and when the request arrived.
    asked: Mutex<Option<(Asked, Instant)>>,
    changed: Notify,
    /// For as long as a guard has it, and it is not lost.
    counted: Mutex<Option<Counted>>,
}

impl Hold {
    /// A claim whose first request is about to be sent. That send counts as acknowledged: the id
    /// dies when a waiter's life has passed since without an answer.
    pub(crate) fn new(key: ClaimKey, session: Arc<Session>, clock: Clock) -> Self {
        let belief = Belief::until(session.waits_until(clock.now()));
        Self::at(Stage::InFlight, belief, key, session, clock)
    }

    /// A claim that was granted to somebody else, who gave it away. Nothing is believed of it
    /// before a renewal.
    pub(super) fn adopted(key: ClaimKey, token: u64, session: Arc<Session>, clock: Clock) -> Self {
        let hold = Self::at(Stage::Granted, Belief::unproven(), key, session, clock);
        hold.token.store(token, Ordering::Release);
        // The one that had it may have changed it, and the store takes no number twice.
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

    /// It counts as held from now on.
    pub(crate) fn count(&self, counted: Counted) {
        let counted = (!self.is_dead()).then_some(counted);
        let _before = std::mem::replace(&mut *lock(&self.counted), counted);
    }

    /// It does not count as held any more.
    pub(crate) fn count_no_more(&self) {
        // The recorder of metrics is not called under the lock.
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

    /// Whether nobody has begun to give it back before.
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

    /// Ends no later than this one, by its `max_hold`.
    pub(super) fn end_with(&self, other: &Self) {
        self.belief.end_with(&other.belief);
    }

    /// The raw token, once it was granted.
    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    /// A reply to a request sent at `sent` found the claim waiting.
    pub(crate) fn queued(&self, sent: Instant) -> bool {
        let alive = self.raise(self.session.waits_until(sent));
        // A reply that was overtaken by a grant does not take the grant back.
        let (from, to) = (Stage::InFlight as u8, Stage::Queued as u8);
        let _ = self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        alive
    }

    /// The ttl that the store keeps for it, as far as it has said so.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    /// The store keeps this ttl. Returns `until`, the end of a life with the ttl of the session, as
    /// the end of a life with the ttl that counts: the shorter one.
    pub(crate) fn keeps(&self, ttl: Duration, until: Instant) -> Instant {
        self.ttl.fetch_min(nanos(ttl), Ordering::AcqRel);
        self.session.until_with(self.ttl(), until)
    }

    /// The deadline if a request sent at `sent` finds it granted.
    pub(crate) fn proven_until(&self, sent: Instant) -> Instant {
        self.session.until_with(self.ttl(), self.session.proven_until(sent))
    }

    /// The number of the next change of the claim. `shows`: the change replaces what the claim
    /// shows. Two processes that have learned the same last number must not send different changes
    /// with the same next number, so the step is random.
    pub(super) fn next_change(&self, shows: bool) -> u64 {
        let step = 1 + random::below(CHANGE_STEP);
        let number = self.changes.fetch_add(step, Ordering::AcqRel) + step;
        if shows {
            self.shown.fetch_max(number, Ordering::AcqRel);
        }
        number
    }

    /// The store has applied a change with this number to it.
    pub(super) fn was_changed(&self, number: u64) {
        self.changes.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether this client has replaced what it shows again since that change.
    pub(super) fn shows_later(&self, number: u64) -> bool {
        self.shown.load(Ordering::Acquire) > number
    }

    /// A reply found the claim granted, and proves its life until `until`.
    pub(crate) fn granted(&self, token: u64, until: Instant) -> bool {
        self.raise(until) && self.pushed(token)
    }

    /// The store said by itself that the claim was granted: that gives no new time.
    pub(crate) fn pushed(&self, token: u64) -> bool {
        if self.is_dead() {
            return false;
        }
        self.token.store(token, Ordering::Release);
        // Before it is known as granted, and once: whoever has collected it is not asked to do so
        // again.
        let now = self.clock.now().as_nanos();
        let _ = self.offered.compare_exchange(NEVER, now, Ordering::AcqRel, Ordering::Acquire);
        self.stage.store(Stage::Granted as u8, Ordering::Release);
        self.changed.notify_waiters();
        true
    }

    /// Moves the deadline on, unless it has passed.
    pub(crate) fn raise(&self, until: Instant) -> bool {
        if self.is_dead() {
            return false;
        }
        self.belief.raise(until);
        true
    }

    /// Ends the hold at `at`, whatever is renewed.
    pub(crate) fn end_at(&self, at: Instant) {
        self.belief.end_at(at);
    }

    /// The end of the lease, as the client may believe in it.
    pub(crate) fn lease_deadline(&self) -> Instant {
        self.belief.lease_deadline()
    }

    /// Whether any request of this process has found it in the store.
    pub(crate) fn is_proven(&self) -> bool {
        self.belief.is_proven()
    }

    /// When the client stops believing, if it does.
    pub(crate) fn deadline(&self) -> Instant {
        self.belief.deadline()
    }

    /// Whether this process is a fork of the one that made the claim, where the engine's threads do
    /// not exist.
    pub(crate) fn is_forked(&self) -> bool {
        !self.session.process.is_this()
    }

    /// Some request of it has no answer, or an answer that leaves it open.
    pub(crate) fn mark_unsettled(&self) {
        self.unsettled.store(true, Ordering::Release);
    }

    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire)
    }

    /// Renewed while it waits and once at the grant, never again.
    pub(crate) fn stop_renewing(&self) {
        self.renews.store(false, Ordering::Release);
    }

    /// Renewed until that is [stopped](Self::stop_renewing) again.
    pub(super) fn go_on_renewing(&self) {
        self.renews.store(true, Ordering::Release);
    }

    pub(crate) fn renews(&self) -> bool {
        self.renews.load(Ordering::Acquire)
    }

    /// Whether it is to be renewed as it stands now.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renews() || self.stage() != Stage::Granted
    }

    /// `every`, shortened by up to a fifth that differs from claim to claim. The id is random
    /// enough, and at hand.
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
