//! The key of a claim, and the ids in it. An id is a secret, so only its hash is ever shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{Error, LockName, random};

/// The id of a session: 128 random bits, which the client chooses before it opens the session.
///
/// The id is a secret, since it authorises the use of the session. So `Debug` shows a hash of the
/// id.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The session with this id, as [`as_str`](Self::as_str) showed it.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// A new id: 128 random bits in hex.
    pub fn random() -> Self {
        Self(HEXLOWER.encode(&random::bits128()).into())
    }

    /// The id as a text, for a handle or for the store to keep.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId(#{})", short_hash(self.0.as_bytes()))
    }
}

/// The id of a claim: 128 random bits. Each attempt to acquire chooses a new id before it sends the
/// first byte.
///
/// The id is the only proof of ownership, and it authorises the release. So `Debug` shows a hash of
/// the id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId([u8; 16]);

impl ClaimId {
    /// A new id.
    pub fn random() -> Self {
        Self(random::bits128())
    }

    /// An id that a store kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bits, for the store to keep.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The hash of the id, which may be shown.
    pub fn hash(&self) -> IdHash {
        let mut hash = [0; 8];
        hash.copy_from_slice(&Sha256::digest(self.0)[..8]);
        IdHash(hash)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId(#{})", self.hash())
    }
}

/// A hash of a claim's id, for listings and for naming a claim to break: 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdHash([u8; 8]);

impl fmt::Display for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdHash({self})")
    }
}

impl FromStr for IdHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid =
            || Error::invalid(format!("{text:?} is not the hash of a claim's id: 16 hex digits"));
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| invalid())?;
        bytes.try_into().map(Self).map_err(|_| invalid())
    }
}

fn short_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..4])
}

/// Which claim: its session, its lock, its attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// The lock.
    pub name: LockName,
    /// The session that the claim belongs to.
    pub session: SessionId,
    /// The attempt.
    pub id: ClaimId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_only_as_a_hash() {
        let id = ClaimId::random();
        let secret = HEXLOWER.encode(id.as_bytes());
        let key =
            ClaimKey { name: "n".parse().unwrap(), session: SessionId::new("top-secret"), id };
        let shown = format!("{key:?}");
        assert!(!shown.contains(&secret) && !shown.contains("top-secret"), "{shown}");
        assert!(shown.contains(&id.hash().to_string()));
        assert_eq!(id.hash().to_string().parse::<IdHash>().unwrap(), id.hash());
    }
}
