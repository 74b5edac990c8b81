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
    /// The claim holds the lock.
    Granted { token: u64 },
    /// The claim waits.
    Queued,
    /// The claim waits, and no claim waits before it.
    First,
    /// The claim waits, and another client receives its messages.
    Elsewhere,
    /// The claim is not there, or its life is over.
    Absent,
}

/// `channel`: the channel on which the client receives the messages about the claim.
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
