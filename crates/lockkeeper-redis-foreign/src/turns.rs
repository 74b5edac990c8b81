//! The turns of other clients. The locks of these layouts have no queue, so a client that claims a
//! lock again right after its release would come before all that wait for a message about it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use lockkeeper_core::LockName;
use lockkeeper_core::store::ClaimId;
use lockkeeper_core::sync::lock;
use lockkeeper_core::time::Instant;

/// The others have this time to claim a released lock.
const TURN: Duration = Duration::from_millis(1);
/// That others wait for a lock is known for so long. The next claim may be sent before the answer
/// to the release.
const KNOWN: Duration = Duration::from_millis(100);
/// With so many names, those for which nobody waits any more are forgotten.
const NAMES: usize = 1024;

/// The locks that this client has released while others waited for them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    all: Mutex<HashMap<LockName, Turn>>,
    /// The claims that pause before they are sent, and were not withdrawn meanwhile.
    paused: Mutex<HashSet<ClaimId>>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// When others were last seen to wait.
    seen: Instant,
    /// Until when the next claim of this client waits.
    until: Instant,
}

impl Turns {
    /// A lock is about to be released.
    pub(super) fn releases(&self, name: &LockName, now: Instant) {
        let mut all = lock(&self.all);
        if let Some(turn) = all.get_mut(name).filter(|turn| now < turn.seen + KNOWN) {
            turn.until = now + TURN;
        }
    }

    /// A lock was released. Others wait for it, or nobody does.
    pub(super) fn released(&self, name: &LockName, others_wait: bool, now: Instant) {
        let mut all = lock(&self.all);
        if !others_wait {
            all.remove(name);
            return;
        }
        if all.len() >= NAMES {
            all.retain(|_, turn| now < turn.seen + KNOWN);
        }
        all.insert(name.clone(), Turn { seen: now, until: now + TURN });
    }

    /// How long the next claim of this client waits.
    pub(super) fn pause(&self, name: &LockName, now: Instant) -> Duration {
        let all = lock(&self.all);
        all.get(name).map_or(Duration::ZERO, |turn| turn.until.saturating_since(now))
    }

    /// A claim pauses. Its withdrawal comes after it in the order of the requests, and may be sent
    /// before it.
    pub(super) fn pauses(&self, id: ClaimId) {
        lock(&self.paused).insert(id);
    }

    /// The claim is withdrawn, whether it pauses or not. Or its pause is over: returns whether it
    /// was not withdrawn meanwhile.
    pub(super) fn ends_pause(&self, id: &ClaimId) -> bool {
        lock(&self.paused).remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::time::Clock;

    #[test]
    fn others_come_first_after_a_release_for_which_they_wait() {
        let (turns, now) = (Turns::default(), Clock::boot().now());
        let name: LockName = "a".parse().unwrap();
        turns.releases(&name, now);
        assert_eq!(turns.pause(&name, now), Duration::ZERO, "nobody waits as far as it is known");
        turns.released(&name, true, now);
        assert_eq!(turns.pause(&name, now), TURN);
        assert_eq!(turns.pause(&name, now + TURN), Duration::ZERO);
        let soon = now + KNOWN / 2;
        turns.releases(&name, soon);
        assert_eq!(turns.pause(&name, soon), TURN, "the answer to the release is still to come");
        turns.released(&name, false, soon);
        assert_eq!(turns.pause(&name, soon), Duration::ZERO);
    }
}
