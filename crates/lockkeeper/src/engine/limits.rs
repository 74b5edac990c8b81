//! How often and how long the engine tries, waits and keeps.

use std::time::Duration;

/// How often a store is asked that has never answered an attempt.
pub(super) const CLAIM_TRIES: u32 = 4;
/// The pause between two tries to claim: it doubles from the first to the last.
pub(super) const CLAIM_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const CLAIM_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many ids one attempt may use up without having waited in between: more is a store that
/// breaks its contract.
pub(super) const CLAIM_IDS: u32 = 10;

/// How long to wait beside a line without news, since a wake-up may be lost.
pub(super) const OUTSIDE_MAX: Duration = Duration::from_secs(10);
/// A pushed grant is renewed so soon, unless it is released before: most locks that are wanted by
/// many are.
pub(super) const PUSHED_RENEWAL: Duration = Duration::from_millis(5);
/// For so long an engine with a thread of its own keeps a grant whose caller is blocked.
pub(super) const KEPT_FOR_BLOCKED: Duration = Duration::from_secs(15);

/// How often the task that has the turn shows that it is polled.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(5);
/// After so long without a sign the tasks behind do without their turn.
pub(super) const SIGN_LIMIT: Duration = Duration::from_secs(15);

/// Between the loss of a part of a multi-lock and its next beginning.
pub(super) const TOGETHER_PAUSE: Duration = Duration::from_millis(50);

/// How often a store is asked to change a claim.
pub(super) const AMEND_TRIES: u32 = 4;
/// The pause after the first of these tries; after the second it is twice as long, and so on.
pub(super) const AMEND_PAUSE: Duration = Duration::from_millis(50);

/// How often a release is tried while its caller waits.
pub(super) const RELEASE_TRIES: u32 = 4;
/// The pause between two tries to release: it doubles from the first to the last.
pub(super) const RELEASE_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const RELEASE_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a release waits for the store's word on who removed the claim.
pub(super) const WHO_REMOVED: Duration = Duration::from_secs(1);
/// What a shutdown waits before it closes a session again.
pub(super) const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// How many claims travel in one renewal, where each is renewed by itself.
pub(super) const RENEWAL_BATCH: usize = 100;
/// So many claims are looked at for their deadlines before other tasks have their turn.
pub(super) const SCANNED_AT_ONCE: usize = 1000;

/// Between the beginnings of two rounds of renewals that a store has asked for.
pub(super) const ROUNDS_APART: Duration = Duration::from_millis(250);
/// A round begins within this time, at random: many clients have lost the same server.
pub(super) const ROUND_WITHIN: Duration = Duration::from_millis(100);
/// By so much the renewal of each further claim of a round comes later.
pub(super) const ROUND_EACH: Duration = Duration::from_micros(10);

/// How long to wait for the store's word before looking all the same: a claim whose time is over is
/// gone from the line without anybody having changed it.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The same where every change but that is told: a word of the store may have been lost.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(20);
