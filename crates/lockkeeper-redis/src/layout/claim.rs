//! CLAIM: a claim joins its line, or asks how it stands.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::bytes::{self, Reader, garbled};
use super::{Channel, ClientId, Keys, Seen, meta, micros, millis, scripts};
use crate::store::{Claim, Verdict, refusal};
use crate::wire::Request;
use crate::{Result, random};

const WHAT: &str = "CLAIM";

/// The value of `first` if the end of no holder is worth a look.
const NOT_FIRST: f64 = -1.0;

pub(crate) fn claim(claim: &Claim, client: &ClientId, channel: &Channel<'_>) -> Request {
    let keys = Keys::of(&claim.key.name);
    let options = options(claim, channel);
    let record = record(claim, client);
    match &claim.replaces {
        None => Request::eval(&scripts::CLAIM, &keys.all(), &[&record, &options]),
        Some(old) => {
            Request::eval(&scripts::CLAIM, &keys.all(), &[&record, &options, old.as_bytes()])
        }
    }
}

/// The record of a claim that is alone in its line, without its token and its end.
pub(super) fn record(claim: &Claim, client: &ClientId) -> Vec<u8> {
    let mut record = Vec::with_capacity(128);
    record.push(super::ALONE);
    record.extend_from_slice(claim.key.id.as_bytes());
    record.extend_from_slice(&claim.capacity.to_le_bytes());
    record.extend_from_slice(&claim.weight.to_le_bytes());
    record.extend_from_slice(&micros(claim.ttl.saturating_add(claim.lock_delay)).to_le_bytes());
    record.extend_from_slice(&millis(claim.wait_ttl).to_le_bytes());
    let length_at = record.len();
    record.extend_from_slice(&[0; 4]);
    meta::write(&claim.meta, &claim.key.name, client, millis(claim.lock_delay), &mut record);
    let length = u32::try_from(record.len() - length_at - 4).unwrap_or(u32::MAX);
    record[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    record
}

/// The options of a claim: a digit of four bits (queue, resend, a life of more than a day,
/// replaces), how many claims may wait, and the channel.
pub(super) fn options(claim: &Claim, channel: &Channel<'_>) -> Vec<u8> {
    let long = claim.ttl.saturating_add(claim.lock_delay) > Duration::from_secs(24 * 3600);
    let bits = [claim.queue, claim.resend, long, claim.replaces.is_some()];
    let bits = bits.iter().rev().fold(0, |bits, bit| 2 * bits + u8::from(*bit));
    let mut options = vec![b'0' + bits];
    options.extend_from_slice(&claim.max_waiters.to_le_bytes());
    if claim.queue {
        channel.write(&mut options);
    }
    options
}

pub(crate) fn claim_answer(claim: &Claim, value: &Value) -> Result<Verdict> {
    let mut read = Reader::new(bytes::about(&claim.key.id, value, WHAT)?, WHAT);
    let (kind, _now) = (read.u8()?, read.f64()?);
    match kind {
        b'g' => granted(claim, &mut read),
        b'q' => queued(&mut read),
        b'b' => busy(&mut read),
        b'x' => Ok(Verdict::Gone),
        b'c' => Err(refusal::other_kind(claim.capacity)),
        b'e' => Err(refusal::epoch(read.f64()? as u16, claim.meta.epoch)),
        b'f' => Err(refusal::queue_full(claim.max_waiters)),
        _ => Err(read.garbled()),
    }
}

/// The answer has the ttl of a claim that was known before. A new claim has the ttl that was sent.
fn granted(claim: &Claim, read: &mut Reader<'_>) -> Result<Verdict> {
    let token = bytes::token(read.f64()?).ok_or_else(|| garbled(WHAT))?;
    let ttl = if read.is_empty() { claim.ttl } else { bytes::time(read.f64()?) };
    Ok(Verdict::Granted { token, ttl })
}

/// The first waiter looks when the next holder would die. The others leave that to the first.
fn queued(read: &mut Reader<'_>) -> Result<Verdict> {
    let seen = Seen::read(read)?.revision();
    let (first, ahead) = (read.f64()?, read.u32()?);
    let look_again = if first == NOT_FIRST {
        random::jittered(Duration::from_secs(10)).max(Duration::from_secs(5))
    } else {
        bytes::time(first) + Duration::from_millis(1)
    };
    Ok(Verdict::Queued { ahead, seen, look_again })
}

fn busy(read: &mut Reader<'_>) -> Result<Verdict> {
    let seen = Seen::read(read)?.revision();
    let first = read.f64()?;
    let holder = (first != NOT_FIRST).then(|| Arc::from(String::from_utf8_lossy(read.rest())));
    Ok(Verdict::Busy {
        holder,
        retry_after: (first != NOT_FIRST).then(|| bytes::time(first)),
        seen,
    })
}
