//! SWAP: a register is one string. Its version, how many writers follow, the writers, newest first,
//! and the value.

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::{scripts, slot};
use crate::fault;
use crate::name;
use crate::registers::{Swap, Version, Versioned, Write, WriterId};
use crate::wire::Request;
use crate::{Error, Result};

const WHAT: &str = "SWAP";

/// The key of a register, and its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyLocation {
    key: String,
    pub(crate) slot: u16,
}

impl KeyLocation {
    /// A register has no side keys, so its key may be as long as it is, and nothing is hashed.
    pub(crate) fn of(key: &str) -> Self {
        let encoded = name::encode(key);
        Self { key: format!("lk:r:{{{encoded}}}"), slot: slot(encoded.as_bytes()) }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

pub(crate) fn load(location: &KeyLocation) -> Request {
    Request::command(&[b"GET", location.key.as_bytes()])
}

pub(crate) fn load_answer(location: &KeyLocation, value: &Value) -> Result<Option<Versioned>> {
    match value {
        Value::Nil => Ok(None),
        there => versioned(location, bytes::bulk(there, "GET")?).map(Some),
    }
}

pub(crate) fn swap(location: &KeyLocation, write: &Write) -> Request {
    let expected = (write.expected().get() as f64).to_le_bytes();
    Request::eval(
        &scripts::SWAP,
        &[location.key.as_bytes()],
        &[&expected, write.writer().as_bytes(), write.value()],
    )
}

pub(crate) fn swap_answer(location: &KeyLocation, value: &Value) -> Result<Swap> {
    match value {
        Value::Int(1) => Ok(Swap::Done),
        Value::Nil => Ok(Swap::Conflict(None)),
        there => Ok(Swap::Conflict(Some(versioned(location, bytes::bulk(there, WHAT)?)?))),
    }
}

/// Reads the value of the key, which another program may have written.
fn versioned(location: &KeyLocation, record: &[u8]) -> Result<Versioned> {
    let read = || {
        let mut read = Reader::new(record, WHAT);
        let version = bytes::token(read.f64()?).ok_or_else(|| garbled(WHAT))?;
        let count = read.u8()?;
        let writers =
            (0..count).map(|_| Ok(WriterId::from_bytes(read.array()?))).collect::<Result<_>>()?;
        Ok(Versioned::new(Version::new(version), read.rest().to_vec(), writers))
    };
    read().map_err(|_: Error| {
        fault::foreign(&location.key, &format!("a string of {} bytes", record.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_has_its_own_key_beside_the_lock_of_that_name() {
        let location = KeyLocation::of("a/{b}");
        assert_eq!(location.key, "lk:r:{a%2F%7Bb%7D}");
        assert_eq!(location.slot, slot(b"a%2F%7Bb%7D"));
    }

    #[test]
    fn what_is_kept_comes_back() {
        let writers = [[7; 16], [8; 16]];
        let record = [&3_f64.to_le_bytes()[..], &[2], &writers.concat(), b"value"].concat();
        let location = KeyLocation::of("a");
        let there = versioned(&location, &record).unwrap();
        assert_eq!(
            there,
            Versioned::new(
                Version::new(3),
                b"value".to_vec(),
                writers.map(WriterId::from_bytes).to_vec()
            )
        );
        let foreign = versioned(&location, &record[..20]).unwrap_err();
        assert!(foreign.to_string().contains("lk:r:{a} holds something"), "{foreign}");
    }
}
