//! Questions with a known answer that no other request has.

use redis::Value;

use super::request::Request;
use crate::random;

/// A word that a server says only to repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nonce(Vec<u8>);

/// The words of one link, each used once.
#[derive(Debug)]
pub(super) struct Nonces {
    link: u128,
    used: u64,
}

impl Nonces {
    pub(super) fn new() -> Self {
        Self { link: u128::from_le_bytes(random::bits128()), used: 0 }
    }

    pub(super) fn next(&mut self) -> Nonce {
        self.used += 1;
        Nonce(format!("{:032x}-{}", self.link, self.used).into_bytes())
    }
}

impl Nonce {
    /// The question for this word. In RESP2 a connection with subscriptions may ask nothing else.
    pub(super) fn question(&self) -> Vec<u8> {
        Request::command(&[b"PING", &self.0]).bytes.into()
    }

    /// Whether the server repeats it: alone, or behind `pong` where RESP2 has subscriptions.
    pub(super) fn is_in(&self, answer: &Value) -> bool {
        match answer {
            Value::BulkString(said) => *said == self.0,
            Value::Array(parts) => parts.last().is_some_and(|last| self.is_in(last)),
            _ => false,
        }
    }
}
