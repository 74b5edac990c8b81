//! How often and how long the engine tries, waits and keeps.

use std::time::Duration;

/// How often an attempt asks a store that has never answered it.
pub(super) const CLAIM_TRIES: u32 = 4;
/// The pause between two tries to claim: it doubles from the first to the last.
pub(super) const CLAIM_PAUSE_MIN: Duration = Duration::from_millis(50);
pub(super) const CLAIM_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many ids one attempt may use up without a wait in between: a store that needs more breaks
/// its contract.
pub(super) const CLAIM_IDS: u32 = 10;

/// How long to wait outside a line without a wake-up, since a wake-up may be lost.
pub(super) const OUTSIDE_MAX: Duration = Duration::from_secs(10);
/// How soon a pushed grant is renewed, unless it is released before: most contended locks are.
pub(super) const PUSHED_RENEWAL: Duration = Duration::from_millis(5);
/// How long an engine with a thread of its own keeps a grant whose caller is blocked.
pub(super) const KEPT_FOR_BLOCKED: Duration = Duration::from_secs(15);

/// How often the task that has the turn shows that it is polled.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(5);
/// After this time without a sign, the tasks behind go on without their turn.
pub(super) const SIGN_LIMIT: Duration = Duration::from_secs(15);

/// The pause between the loss of a part of a multi-lock and the next try.
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
/// How long a release waits for the store's answer who removed the claim.
pub(super) const WHO_REMOVED: Duration = Duration::from_secs(1);
/// How long a shutdown waits before it closes a session again.
pub(super) const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// How many claims one renewal has, if each claim is renewed by itself.
pub(super) const RENEWAL_BATCH: usize = 100;
/// After this number of claims the scan for deadlines lets other tasks run.
pub(super) const SCANNED_AT_ONCE: usize = 1000;

/// The time between the beginnings of two rounds of renewals that a store has asked for.
pub(super) const ROUNDS_APART: Duration = Duration::from_millis(250);
/// A round begins within this time, at random: many clients may have lost the same server.
pub(super) const ROUND_WITHIN: Duration = Duration::from_millis(100);
/// How much later the renewal of each further claim of a round is.
pub(super) const ROUND_EACH: Duration = Duration::from_micros(10);

/// How long to wait for a wake-up before a look all the same: a claim that expires leaves the line
/// without a change by a client.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How long to wait if the store reports every change but an expiry: a wake-up may be lost.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(20);
