//! LOOK: how a claim stands, without giving it time.

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::{Keys, scripts};
use crate::Result;
use crate::backend::redis::wire::Request;
use crate::store::ClaimKey;

const WHAT: &str = "LOOK";

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::redis) enum Standing {
    /// It holds the lock.
    Granted { token: u64 },
    /// It waits.
    Queued,
    /// It waits, and nobody waits before it.
    First,
    /// It is not there, or its life is over.
    Absent,
}

pub(in crate::backend::redis) fn look(key: &ClaimKey) -> Request {
    Request::eval(&scripts::LOOK, &Keys::of(&key.name).all(), &[key.id.as_bytes()])
}

pub(in crate::backend::redis) fn look_answer(key: &ClaimKey, value: &Value) -> Result<Standing> {
    match Reader::new(bytes::about(&key.id, value, WHAT)?, WHAT).f64()? {
        -1.0 => Ok(Standing::Absent),
        -2.0 => Ok(Standing::First),
        0.0 => Ok(Standing::Queued),
        token => {
            let token = bytes::token(token).ok_or_else(|| garbled(WHAT))?;
            Ok(Standing::Granted { token })
        }
    }
}
