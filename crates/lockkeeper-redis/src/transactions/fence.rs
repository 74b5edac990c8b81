//! The token of a lock, compared in a transaction.

use super::changes;
use crate::marks::redis::FencedKey;
use crate::marks::{Marks, StaleReason};
use crate::wire::{Request, Value};
use crate::{Error, ErrorKind, Result, Sequencer};

/// A key whose data a lock protects, and the holder of that lock.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub(super) key: FencedKey,
    pub(super) holder: Sequencer,
}

impl Fence {
    /// Reads the marks, which are watched.
    pub(super) fn look(&self) -> Request {
        Request::command(&[b"HMGET", self.key.marks().as_bytes(), b"any", b"exclusive"])
    }

    /// The request that raises the marks, if they have to rise.
    ///
    /// # Errors
    /// `Lost` if a newer holder was there; `Unsupported` for permits.
    pub(super) fn pass(&self, marks: &Value) -> Result<Option<Request>> {
        let before = self.read(marks)?;
        let mut after = before;
        after
            .admit(self.holder.mode(), self.holder.token())
            .map_err(|reason| self.refused(reason))?;
        let mut parts = vec!["HSET".to_owned(), self.key.marks().to_owned()];
        for (field, token) in [("any", after.any), ("exclusive", after.exclusive)] {
            parts.extend(token.iter().flat_map(|token| [field.to_owned(), token.to_string()]));
        }
        (after != before).then(|| changes::request(&parts)).transpose()
    }

    /// A write that changes nothing, and of which no other transaction takes notice. A server that
    /// is a replica by now refuses it: its marks may be old.
    pub(super) fn touch(&self) -> Request {
        Request::command(&[b"HDEL", self.key.marks().as_bytes(), b""])
    }

    /// # Errors
    /// `Invalid` for the holder of a read lock.
    pub(super) fn check_write(&self) -> Result<()> {
        self.key.write(&self.holder, &[] as &[&str]).map(drop)
    }

    fn read(&self, marks: &Value) -> Result<Marks> {
        let fields: [Option<Vec<u8>>; 2] = redis::from_redis_value_ref(marks).map_err(|_| {
            Error::new(ErrorKind::Internal, "the server's answer to HMGET is no list of two")
        })?;
        let [any, exclusive] = fields.map(|field| {
            field.map(|token| String::from_utf8_lossy(&token).parse()).transpose().map_err(|_| {
                let problem = format!("{:?} does not hold the marks of a fence", self.key.marks());
                Error::invalid(problem).with_remedy("another key for what is kept there")
            })
        });
        Ok(Marks::new(any?, exclusive?))
    }

    fn refused(&self, reason: StaleReason) -> Error {
        let StaleReason::Older { seen } = &reason else {
            return Error::new(ErrorKind::Unsupported, format!("{} {reason}", self.holder));
        };
        let problem =
            format!("{} is stale: {:?} has seen token {seen}", self.holder, self.key.key());
        Error::new(ErrorKind::Lost, problem)
            .with_remedy("stop working on what the lock protects, and acquire it again")
            .with_source(reason)
            .about(self.holder.name().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(holder: &str) -> Fence {
        Fence { key: FencedKey::new("k").unwrap(), holder: holder.parse().unwrap() }
    }

    fn marks(any: &str, exclusive: &str) -> Value {
        let field =
            |text: &str| if text.is_empty() { Value::Nil } else { Value::BulkString(text.into()) };
        Value::Array(vec![field(any), field(exclusive)])
    }

    #[test]
    fn the_marks_rise_with_the_holders_and_are_written_only_then() {
        let raised = |any, exclusive| {
            let mut parts: Vec<&[u8]> = vec![b"HSET", b"{k}:fence", b"any", any];
            if let Some(exclusive) = exclusive {
                parts.extend([&b"exclusive"[..], exclusive]);
            }
            Some(Request::command(&parts))
        };
        for (holder, any, exclusive, expected) in [
            ("lk1.x.34.l", "", "", raised(b"34", Some(b"34"))),
            ("lk1.x.34.l", "33", "33", raised(b"34", Some(b"34"))),
            ("lk1.x.34.l", "34", "34", None),
            ("lk1.s.34.l", "", "", raised(b"34", None)),
            ("lk1.s.34.l", "35", "33", None),
            ("lk1.s.34.l", "33", "33", raised(b"34", Some(b"33"))),
        ] {
            assert_eq!(
                fence(holder).pass(&marks(any, exclusive)).unwrap(),
                expected,
                "{holder} {any} {exclusive}"
            );
        }
    }

    #[test]
    fn an_older_holder_is_asked_to_stop() {
        for (holder, any, exclusive) in
            [("lk1.x.34.l", "35", ""), ("lk1.s.34.l", "35", "35"), ("lk1.x.9.l", "10", "8")]
        {
            let error = fence(holder).pass(&marks(any, exclusive)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost);
            let message = error.to_string();
            assert!(
                message.contains(holder)
                    && message.contains(any)
                    && message.contains("Try: stop working"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let kind = |holder: &str, marks: &Value| fence(holder).pass(marks).unwrap_err().kind();
        assert_eq!(kind("lk1.p1.34.l", &marks("", "")), ErrorKind::Unsupported);
        assert_eq!(kind("lk1.x.34.l", &marks("x", "")), ErrorKind::Invalid);
        assert_eq!(kind("lk1.x.34.l", &Value::Nil), ErrorKind::Internal);
        assert_eq!(fence("lk1.s.34.l").check_write().unwrap_err().kind(), ErrorKind::Invalid);
        assert!(fence("lk1.x.34.l").check_write().is_ok());
    }
}
