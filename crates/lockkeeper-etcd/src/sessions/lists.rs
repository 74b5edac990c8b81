//! What the lists of the keys on the leases of a session have shown, and which leases a renewal
//! lists.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::sync::lock;

use super::sightings::Sightings;
use crate::layout::Missed;
use crate::time::Instant;

/// The keys on all leases are listed at least this often, whether a claim needs the list or not.
pub(super) const LISTED: Duration = Duration::from_secs(10);

/// What the lists of a session have shown.
#[derive(Debug)]
pub(crate) struct Lists {
    /// How long a holder's lease lives without a renewal.
    whole: Duration,
    inner: Mutex<KeysSeen>,
}

#[derive(Debug, Default)]
struct KeysSeen {
    /// When the keys of all leases were listed last.
    at: Option<Instant>,
    /// Keys that are on a lease and that no renewal has listed.
    unlisted: Sightings<Bytes>,
    /// The keys of the clients that have missed a claim, each with its create revision.
    missed: Sightings<(Bytes, i64)>,
}

/// A claim that no client has listed for a whole ttl, as the clients of its session have reported.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) missed: Missed,
    /// The lease of the session that the claim is on. Without one, the claim has gone, or belongs
    /// to no client any more.
    pub(crate) lease: Option<i64>,
}

/// What is to be done about the claims of a detached session that a list does not name.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// The keys of the claims that this client is to report as missed.
    pub(crate) missed: Vec<Bytes>,
    /// The claims to remove, each with the key that has reported it as missed.
    pub(crate) over: Vec<Leftover>,
}

impl Verdicts {
    pub(crate) fn is_empty(&self) -> bool {
        self.missed.is_empty() && self.over.is_empty()
    }
}

impl Lists {
    pub(super) fn new(whole: Duration) -> Self {
        Self { whole, inner: Mutex::default() }
    }

    /// Notes that a renewal which was sent then has listed the keys of all leases.
    pub(crate) fn was_listed(&self, sent: Instant) {
        self.lock().at = Some(sent);
    }

    /// Whether the keys of all leases have to be listed, for keys that this client does not know.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.lock().at.is_none_or(|listed| now.saturating_since(listed) >= LISTED)
    }

    /// Notes the keys that no renewal has listed. Returns the keys that no renewal has listed for a
    /// whole ttl: lost replies have left them.
    pub(crate) fn left_over(&self, unlisted: Vec<Bytes>, now: Instant) -> Vec<Bytes> {
        let mut inner = self.lock();
        inner.unlisted.note(unlisted, now);
        inner.unlisted.older(self.whole, now).cloned().collect()
    }

    /// What is to be done about the keys on the leases of a detached session that the list of a
    /// renewal does not name. Other clients have said of some claims that they have missed them. A
    /// claim that is on no lease of the session is no leftover: it may be kept.
    pub(crate) fn judge_unlisted(
        &self,
        unlisted: HashMap<Bytes, i64>,
        said: Vec<Missed>,
        now: Instant,
    ) -> Verdicts {
        let is_said = |claim: &Bytes| said.iter().any(|missed| missed.claim == *claim);
        let new = unlisted.keys().filter(|claim| !is_said(claim)).cloned().collect();
        let mut inner = self.lock();
        let name = |missed: &Missed| (missed.key.clone(), missed.created);
        inner.missed.note(said.iter().map(name), now);
        let is_over = |missed: &Missed| inner.missed.is_older(&name(missed), self.whole, now);
        let leftover = |missed: Missed| {
            let lease = unlisted.get(&missed.claim).copied();
            Leftover { missed, lease }
        };
        Verdicts { missed: new, over: said.into_iter().filter(is_over).map(leftover).collect() }
    }

    fn lock(&self) -> MutexGuard<'_, KeysSeen> {
        lock(&self.inner)
    }
}
