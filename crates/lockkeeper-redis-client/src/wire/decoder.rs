//! From bytes to replies and pushes.

use bytes::BytesMut;
use redis::{PushKind, Value, ValueCodec};
use tokio_util::codec::Decoder as _;

/// No reply is as large as this: a line of a million claims takes less.
const MAX_REPLY: usize = 64 << 20;

/// A whole value from the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to the oldest request.
    Reply(Value),
    /// A message, or the confirmation of a subscription.
    Push(PushKind, Vec<Value>),
}

/// Turns bytes into values.
pub(crate) struct Decoder {
    codec: ValueCodec,
    bytes: BytesMut,
    /// Bytes since the last whole value.
    pending: usize,
    /// RESP2 gives messages the form of replies, on a connection that has nothing but
    /// subscriptions.
    only_messages: bool,
    pub(crate) limit: usize,
}

impl Decoder {
    pub(crate) fn new(only_messages: bool) -> Self {
        Self {
            codec: ValueCodec::default(),
            bytes: BytesMut::new(),
            pending: 0,
            only_messages,
            limit: MAX_REPLY,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pending += bytes.len();
    }

    /// The next whole value, if there is one.
    ///
    /// # Errors
    /// The bytes make no sense, so the later bytes cannot be understood either.
    pub(crate) fn next(&mut self) -> Result<Option<Incoming>, String> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        match self.codec.decode(&mut self.bytes) {
            Ok(Some(value)) => {
                self.pending = self.bytes.len();
                Ok(Some(self.sort(value)))
            }
            Ok(None) if self.pending > self.limit => {
                Err(format!("it sent a reply of more than {} bytes", self.limit))
            }
            Ok(None) => Ok(None),
            Err(_) => Err("it does not speak the Redis protocol".to_owned()),
        }
    }

    fn sort(&self, value: Value) -> Incoming {
        match value {
            Value::Push { kind, data } => Incoming::Push(kind, data),
            Value::Attribute { data, .. } => self.sort(*data),
            Value::Array(parts) if self.only_messages => message(parts),
            other => Incoming::Reply(other),
        }
    }
}

/// Reads an array, which is a message or a reply in RESP2.
fn message(mut parts: Vec<Value>) -> Incoming {
    let kind = match parts.first() {
        Some(Value::BulkString(kind)) => match kind.as_slice() {
            b"message" => PushKind::Message,
            b"smessage" => PushKind::SMessage,
            b"subscribe" => PushKind::Subscribe,
            b"ssubscribe" => PushKind::SSubscribe,
            b"unsubscribe" => PushKind::Unsubscribe,
            b"sunsubscribe" => PushKind::SUnsubscribe,
            _ => return Incoming::Reply(Value::Array(parts)),
        },
        _ => return Incoming::Reply(Value::Array(parts)),
    };
    parts.remove(0);
    Incoming::Push(kind, parts)
}
