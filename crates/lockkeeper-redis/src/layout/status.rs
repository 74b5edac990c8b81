//! LOOK: the status of a claim, without a renewal.

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::{Channel, Keys, scripts};
use crate::Result;
use crate::store::ClaimKey;
use crate::wire::Request;

const WHAT: &str = "LOOK";

/// The status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimStatus {
    /// It holds the lock.
    Granted { token: u64 },
    /// It waits.
    Queued,
    /// It waits, and nobody waits before it.
    First,
    /// It waits, and another client receives what is published about it.
    Elsewhere,
    /// It is not there, or its life is over.
    Absent,
}

/// `channel`: where the client receives what is published about the claim.
pub(crate) fn look(key: &ClaimKey, channel: &Channel<'_>) -> Request {
    let mut receives = Vec::new();
    channel.write(&mut receives);
    Request::eval(&scripts::LOOK, &Keys::of(&key.name).all(), &[key.id.as_bytes(), &receives])
}

pub(crate) fn look_answer(key: &ClaimKey, value: &Value) -> Result<ClaimStatus> {
    match Reader::new(bytes::about(&key.id, value, WHAT)?, WHAT).f64()? {
        -1.0 => Ok(ClaimStatus::Absent),
        -2.0 => Ok(ClaimStatus::First),
        -3.0 => Ok(ClaimStatus::Elsewhere),
        0.0 => Ok(ClaimStatus::Queued),
        token => {
            let token = bytes::token(token).ok_or_else(|| garbled(WHAT))?;
            Ok(ClaimStatus::Granted { token })
        }
    }
}
