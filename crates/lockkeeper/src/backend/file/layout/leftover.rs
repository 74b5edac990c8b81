//! Leftovers: claims that the client knows nothing of, since the reply to them was lost and the withdraw too. They
//! would live for as long as their session.

use std::collections::{HashMap, HashSet};

use super::{Micros, Turn};
use crate::backend::file::fault::Outcome;
use crate::store::{ClaimId, Live, SessionId};

/// Claims that a renewal did not list, and since when.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    unlisted: HashMap<SessionId, Unlisted>,
}

#[derive(Debug, Default)]
struct Unlisted {
    looked: Micros,
    since: HashMap<ClaimId, Micros>,
}

impl Leftovers {
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.unlisted.remove(session);
    }
}

impl Turn<'_> {
    /// Removes the claims of a session that no renewal has listed for a whole ttl.
    ///
    /// One renewal proves nothing: it may list only a part of the claims, and a claim that was sent while the list was
    /// being made is missing in it. But a client lists each claim every third of its life, so what is missing for a
    /// ttl is believed by nobody.
    pub(super) fn drop_leftovers(&mut self, session: &SessionId, live: &[Live], ttl: Micros) -> Outcome<()> {
        let now = self.now;
        let unlisted = self.memory.leftovers.unlisted.entry(session.clone()).or_default();
        for claim in live {
            unlisted.since.remove(&claim.key.id);
        }
        if now < unlisted.looked.saturating_add(ttl / 2) {
            return Ok(());
        }
        unlisted.looked = now;
        let mut over = self.claims_of(session)?;
        let listed: HashSet<ClaimId> = live.iter().map(|l| l.key.id).collect();
        let unlisted = self.memory.leftovers.unlisted.entry(session.clone()).or_default();
        unlisted.since.retain(|id, _| over.contains_key(id));
        over.retain(|id, place| {
            !listed.contains(id)
                && now > unlisted.since.entry(*id).or_insert(now).saturating_add(ttl).saturating_add(place.delay())
        });
        self.remove_all(over.into_values())
    }
}
