//! What the server remembers of a detached session: that it was closed.

use std::time::Duration;

use data_encoding::HEXLOWER;
use redis::Value;
use sha2::{Digest, Sha256};

use super::{bytes, slot};
use crate::Result;
use crate::store::SessionId;
use crate::wire::Request;

/// Where it is said that a session was closed, in the keyspace and in a cluster. The key has a hash of the id, which is
/// a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionKey {
    key: String,
    pub(crate) slot: u16,
}

impl SessionKey {
    pub(crate) fn of(id: &SessionId) -> Self {
        let hash = HEXLOWER.encode(&Sha256::digest(id.as_str())[..16]);
        Self { key: format!("lk:s:{{{hash}}}"), slot: slot(hash.as_bytes()) }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Remembers for so long that the session was closed.
    pub(crate) fn close(&self, remembered: Duration) -> Request {
        let ms = remembered.as_millis().to_string();
        Request::command(&[b"SET", self.key.as_bytes(), b"closed", b"PX", ms.as_bytes()])
    }

    /// Asks whether the session was closed.
    pub(crate) fn look(&self) -> Request {
        Request::command(&[b"GET", self.key.as_bytes()])
    }

    /// Whatever somebody else has written there: the session is not opened.
    pub(crate) fn is_closed(value: &Value) -> Result<bool> {
        match value {
            Value::Nil => Ok(false),
            there => bytes::bulk(there, "GET").map(|_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_a_key_that_does_not_show_its_id() {
        let (one, other) = (SessionId::new("secret"), SessionId::new("another"));
        let key = SessionKey::of(&one);
        assert!(key.key().starts_with("lk:s:{") && !key.key().contains("secret"), "{key:?}");
        assert_ne!(key, SessionKey::of(&other));
        assert_eq!(key.slot, slot(key.key()["lk:s:{".len()..].trim_end_matches('}').as_bytes()));
    }
}
