//! The keys of sessions, and what the keys below a detached session are.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::keys::Lines;
use super::span::Span;
use crate::store::SessionId;

/// What a key below a detached session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPart {
    /// A lease beside the first one, for claims that hold or for claims that wait.
    Lease { id: i64, holds: bool },
    /// The report that a client has missed a claim in its list.
    Missed,
    /// Names a claim that a break has moved to a lease of the operator.
    Marked,
}

/// A claim that a client has missed in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    /// The key of the report.
    pub(crate) key: Bytes,
    /// The revision that created the report.
    pub(crate) created: i64,
    /// The key of the claim.
    pub(crate) claim: Bytes,
}

impl Lines {
    /// The record of a detached session, on its first lease.
    pub(crate) fn session(&self, id: &SessionId) -> Bytes {
        self.session_on(self.lease_of(id))
    }

    /// The record of a detached session with this first lease.
    pub(crate) fn session_on(&self, lease: i64) -> Bytes {
        format!("{}/.session/{lease:x}", self.own()).into()
    }

    /// All keys of a detached session but its claims.
    pub(crate) fn of_session(&self, id: &SessionId) -> Span {
        // A zero follows the slash.
        Span {
            from: self.session(id),
            to: format!("{}/.session/{:x}0", self.own(), self.lease_of(id)).into(),
        }
    }

    /// The key that shows the clients of a detached session a lease. The key is on this lease.
    pub(crate) fn session_lease(&self, id: &SessionId, lease: i64, holds: bool) -> Bytes {
        let purpose = if holds { "hold" } else { "wait" };
        format!("{}/.session/{:x}/{purpose}-{lease:x}", self.own(), self.lease_of(id)).into()
    }

    /// The key that reports: a client of a detached session has missed this claim in its list.
    pub(crate) fn missed(&self, id: &SessionId, claim: &Bytes) -> Bytes {
        let hash = HEXLOWER.encode(&Sha256::digest(claim)[..16]);
        format!("{}/.session/{:x}/missed-{hash}", self.own(), self.lease_of(id)).into()
    }

    /// The key that names a marked claim of a detached session with this first lease.
    pub(crate) fn marked(&self, lease: i64, claim: &Bytes) -> Bytes {
        let hash = HEXLOWER.encode(&Sha256::digest(claim)[..16]);
        format!("{}/.session/{lease:x}/marked-{hash}", self.own()).into()
    }

    /// The claim of a session that this key names as a marked one. Another program may have written
    /// a key that names the key of another claim.
    pub(crate) fn marked_claim(&self, id: &SessionId, key: &Bytes, value: &Bytes) -> Option<Bytes> {
        let is_named = self.part_of_session(id, key) == Some(SessionPart::Marked)
            && *key == self.marked(self.lease_of(id), value)
            && self.is_claim_of(id, value);
        is_named.then(|| value.clone())
    }

    /// What a key below a detached session is.
    pub(crate) fn part_of_session(&self, id: &SessionId, key: &Bytes) -> Option<SessionPart> {
        let part = key.strip_prefix(&*self.session(id))?.strip_prefix(b"/")?;
        let part = std::str::from_utf8(part).ok()?;
        if part.starts_with("missed-") {
            return Some(SessionPart::Missed);
        }
        if part.starts_with("marked-") {
            return Some(SessionPart::Marked);
        }
        let holds = part.starts_with("hold-");
        let lease = part.strip_prefix("hold-").or_else(|| part.strip_prefix("wait-"))?;
        Some(SessionPart::Lease { id: i64::from_str_radix(lease, 16).ok()?, holds })
    }

    /// Whether a key on the first lease of a session belongs to the session: its record, a key
    /// below that, or a claim.
    pub(crate) fn is_of_session(&self, id: &SessionId, key: &Bytes) -> bool {
        *key == self.session(id)
            || self.part_of_session(id, key).is_some()
            || self.is_claim_of(id, key)
    }

    fn is_claim_of(&self, id: &SessionId, key: &Bytes) -> bool {
        let last = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let slot = format!("{:x}-", self.lease_of(id));
        self.name_in(key).is_some() && last.starts_with(slot.as_bytes())
    }

    /// The key that shows for as long as it exists that a session was closed.
    pub(crate) fn ended(&self, id: &SessionId) -> Bytes {
        format!("{}/.ended/{:x}", self.own(), self.lease_of(id)).into()
    }
}
