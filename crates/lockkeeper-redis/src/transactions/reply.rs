//! The answers of commands.

use crate::wire::{Value, WireError};

/// The answer of a command. Maps are lists of their keys and values in turn, as `HGETALL` has
/// always answered; numbers with a fraction are text; true is 1. Pairs of other commands are lists
/// of two where the server speaks RESP3, and in turn where it speaks RESP2 (`ZRANGE` with scores,
/// `HRANDFIELD` with values).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing is there.
    Nil,
    /// A whole number.
    Int(i64),
    /// Data, or a status such as `OK`.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<Self>),
    /// An error inside a list.
    Error(String),
}

impl Reply {
    /// Whether nothing is there.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// The data; `None` if it is something else.
    pub fn bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The data as text; `None` if it is something else.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// A whole number, also where it is kept as text; `None` if it is something else.
    pub fn number(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { self.text()?.parse().ok() }
    }

    /// The parts of a list; none if it is something else.
    pub fn list(&self) -> &[Self] {
        if let Self::List(parts) = self { parts } else { &[] }
    }
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        let list = |parts: Vec<Value>| Self::List(parts.into_iter().map(Self::from).collect());
        match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::Boolean(is_true) => Self::Int(is_true.into()),
            Value::BulkString(bytes) | Value::BigNumber(bytes) => Self::Bytes(bytes),
            Value::Array(parts) | Value::Set(parts) => list(parts),
            Value::Map(pairs) => {
                list(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())
            }
            Value::Attribute { data, .. } => Self::from(*data),
            Value::ServerError(error) => Self::Error(WireError::from(error).to_string()),
            // A status, a number with a fraction, or text with its format.
            other => match redis::from_redis_value::<String>(other) {
                Ok(text) => Self::Bytes(text.into_bytes()),
                Err(error) => Self::Error(format!("an answer of an unknown kind: {error}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_in_both_protocols() {
        let bulk = |text: &str| Value::BulkString(text.into());
        for (new, old) in [
            (Value::Map(vec![(bulk("f"), bulk("1"))]), Value::Array(vec![bulk("f"), bulk("1")])),
            (Value::Set(vec![bulk("a")]), Value::Array(vec![bulk("a")])),
            (Value::Double(1.5), bulk("1.5")),
            (Value::Double(3.0), bulk("3")),
            (Value::Double(f64::INFINITY), bulk("inf")),
            (Value::Boolean(true), Value::Int(1)),
            (Value::Okay, Value::SimpleString("OK".into())),
            (Value::BigNumber(b"123".to_vec()), bulk("123")),
        ] {
            assert_eq!(Reply::from(new), Reply::from(old));
        }
    }

    #[test]
    fn a_reply_is_read_as_what_it_is_and_as_nothing_else() {
        let bytes = |text: &str| Reply::Bytes(text.into());
        assert_eq!(
            (Reply::Int(-7).number(), bytes("12").number(), bytes("x").number()),
            (Some(-7), Some(12), None)
        );
        assert_eq!(
            (bytes("x").text(), Reply::Bytes(vec![0xff]).text(), Reply::Int(1).text()),
            (Some("x"), None, None)
        );
        assert!(Reply::Nil.is_nil() && !bytes("").is_nil());
        assert_eq!(Reply::List(vec![Reply::Nil]).list(), [Reply::Nil]);
        assert_eq!(
            (bytes("x").list().len(), Reply::Nil.number(), Reply::Nil.bytes()),
            (0, None, None)
        );
    }
}
