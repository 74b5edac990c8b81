//! The server remembers that a detached session was closed.

use std::time::Duration;

use data_encoding::HEXLOWER;
use redis::Value;
use sha2::{Digest, Sha256};

use super::bytes::{bulk, garbled};
use super::{scripts, slot};
use crate::Result;
use crate::store::SessionId;
use crate::wire::Request;

const WHAT: &str = "SESSION";

/// How the key of a session begins; a hash and a brace follow.
const OPEN: &str = "lk:s:{";

/// The keys that an access rule has to cover for detached sessions. A rule about the names of locks
/// does not cover them.
pub(crate) const SESSION_KEYS: &str = "~lk:s:{*";

/// The key that says that a session was closed, and its slot. The key has a hash of the id, since
/// the id is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionKey {
    key: String,
    pub(crate) slot: u16,
}

impl SessionKey {
    pub(crate) fn of(id: &SessionId) -> Self {
        let hash = HEXLOWER.encode(&Sha256::digest(id.as_str())[..16]);
        Self { key: format!("{OPEN}{hash}}}"), slot: slot(hash.as_bytes()) }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// A key of the same slot, which `WAIT` needs: see `replicas.rs`.
    pub(crate) fn mark(&self) -> Vec<u8> {
        [self.key.as_bytes(), b":r"].concat()
    }

    /// Lets the server remember for so long that the session was closed, unless another program has
    /// its key.
    pub(crate) fn close(&self, remembered: Duration) -> Request {
        self.request(&remembered.as_millis().to_string())
    }

    /// Asks whether the session was closed.
    pub(crate) fn look(&self) -> Request {
        self.request("0")
    }

    fn request(&self, ms: &str) -> Request {
        Request::eval(&scripts::SESSION, &[self.key.as_bytes()], &[ms.as_bytes()])
    }

    /// Whether the session was closed, or another program has its key: it is not opened.
    pub(crate) fn is_closed(&self, value: &Value) -> Result<bool> {
        let hash = &self.key.as_bytes()[OPEN.len()..self.key.len() - 1];
        match bulk(value, WHAT)?.strip_prefix(hash) {
            Some(b"o") => Ok(false),
            Some(b"c" | b"f") => Ok(true),
            _ => Err(garbled(WHAT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_answer_about_another_session_is_not_believed() {
        let [one, other] = ["one", "other"].map(|id| SessionKey::of(&SessionId::new(id)));
        let answer = |key: &SessionKey, found: &str| {
            let hash = &key.key[OPEN.len()..key.key.len() - 1];
            Value::BulkString(format!("{hash}{found}").into_bytes())
        };
        for (found, is_closed) in [("o", false), ("c", true), ("f", true)] {
            assert_eq!(one.is_closed(&answer(&one, found)).unwrap(), is_closed);
            assert_eq!(
                one.is_closed(&answer(&other, found)).unwrap_err().kind(),
                ErrorKind::Internal
            );
        }
        for value in [
            Value::Nil,
            Value::Okay,
            Value::BulkString(b"closed".to_vec()),
            answer(&one, "x"),
            answer(&one, ""),
        ] {
            assert_eq!(one.is_closed(&value).unwrap_err().kind(), ErrorKind::Internal, "{value:?}");
        }
    }

    #[test]
    fn a_session_has_a_key_that_does_not_show_its_id() {
        let (one, other) = (SessionId::new("secret"), SessionId::new("another"));
        let key = SessionKey::of(&one);
        assert!(key.key().starts_with(SESSION_KEYS.trim_matches(['~', '*'])), "{key:?}");
        assert!(key.key().starts_with(OPEN) && !key.key().contains("secret"), "{key:?}");
        assert_ne!(key, SessionKey::of(&other));
        assert_eq!(key.slot, slot(key.key()[OPEN.len()..].trim_end_matches('}').as_bytes()));
    }
}
