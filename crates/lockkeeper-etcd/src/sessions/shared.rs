//! What the other clients of a detached session have made and said.

use std::time::Duration;

use bytes::Bytes;

use super::super::layout::{Lines, Missed, SessionPart};
use super::super::shared::Verdicts;
use super::super::wire::messages::KeyValue;
use super::{Purpose, Session};
use crate::store::SessionId;
use crate::time::Instant;

impl Session {
    /// These leases of it are there, as their keys show. None is dropped that is not among them: it may have been made since.
    pub(in super::super) fn has_leases(&self, lines: &Lines, id: &SessionId, found: &[KeyValue], now: Instant) {
        for kv in found {
            let Some(SessionPart::Lease { id: lease, holds }) = lines.part_of_session(id, &kv.key) else { continue };
            // On another lease it is somebody else's word.
            if kv.lease == lease && self.purpose(lease).is_none() {
                self.add(lease, if holds { Purpose::Hold } else { Purpose::Wait }, now);
            }
        }
    }

    /// What is to be done about the keys that are on its leases and that the list of a renewal does not name, of which
    /// others have said this.
    pub(in super::super) fn judge_unlisted(&self, unlisted: Vec<Bytes>, said: Vec<Missed>, now: Instant) -> Verdicts {
        let whole = Duration::from_secs(self.hold.unsigned_abs());
        let mut inner = self.lock();
        let mut verdicts = Verdicts::default();
        let is_said = |claim: &Bytes| said.iter().any(|missed| missed.claim == *claim);
        verdicts.missed = unlisted.into_iter().filter(|claim| !is_said(claim)).collect();
        let seen = std::mem::take(&mut inner.missed);
        for missed in said {
            let before = seen.get(&missed.key).filter(|(created, _)| *created == missed.created);
            let since = before.map_or(now, |(_, since)| *since);
            inner.missed.insert(missed.key.clone(), (missed.created, since));
            if now.saturating_since(since) >= whole {
                verdicts.over.push(missed);
            }
        }
        verdicts
    }
}
