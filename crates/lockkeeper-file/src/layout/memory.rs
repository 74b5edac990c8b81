//! What the writer remembers between two transactions.

use std::collections::HashMap;

use super::times::Micros;
use crate::store::SessionId;

/// The writer's memory between two transactions. Safety does not need it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) leftovers: Leftovers,
    /// Names that were made since the reaper ran.
    pub(super) new_names: usize,
    /// How often the disk was waited for after a commit.
    #[cfg(test)]
    pub(crate) reached: usize,
}

/// So few sessions are not looked at.
const LOOK_MIN: usize = 64;

/// When the claims of each session were compared with a list last.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    looked: HashMap<SessionId, LastLook>,
    /// The number of sessions at which the next look removes ended sessions. A session of an
    /// adopted handle ends without a request.
    look_at: usize,
}

#[derive(Debug, Default)]
struct LastLook {
    at: Micros,
    /// When the session has ended if it was renewed no more.
    ends: Micros,
}

impl Leftovers {
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.looked.remove(session);
    }

    /// The number of sessions in it.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.looked.len()
    }

    /// Whether it is time to look again, at a session that is renewed now.
    pub(super) fn is_due(&mut self, session: &SessionId, now: Micros, ttl: Micros) -> bool {
        if self.looked.len() >= self.look_at.max(LOOK_MIN) {
            self.looked.retain(|_, looked| looked.ends > now);
            self.look_at = 2 * self.looked.len();
        }
        let looked = self.looked.entry(session.clone()).or_default();
        looked.ends = now.saturating_add(2 * ttl);
        let is_due = now >= looked.at.saturating_add(ttl / 2);
        if is_due {
            looked.at = now;
        }
        is_due
    }
}
