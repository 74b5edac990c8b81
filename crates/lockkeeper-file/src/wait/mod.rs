//! Waiting: notification files that other clients write to, and the liveness files of the clients
//! ahead.
//!
//! A watch always begins before the look that it protects, so no event is missed between them.
//!
//! The clients ahead are the clients of the last look. A waiter is woken, and looks again, when its
//! predecessor has left or was granted beside other holders.
//!
//! Every claim ahead ends with its client, which is watched, or at a known time, at which the
//! waiter looks again.

pub(crate) mod registry;
pub(crate) mod waiters;

use std::time::Duration;

use self::registry::Watching;
use super::fault;
use super::reader::Reader;
use crate::Result;
use crate::store::{Interest, Revision, Wake};
use crate::time::Clock;

/// Waits for a claim, or for the change of a line: the thread of the reader looks, and answers.
pub(super) async fn wait(
    reader: &Reader,
    interest: Interest<'_>,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    let what = match interest {
        Interest::Claim(key) => Watching::Claim(key.clone()),
        Interest::Name(name) => Watching::Name(name.clone(), seen),
    };
    let (_registered, woken) = reader.wait(what);
    match Clock::boot().timeout(within, woken).await {
        None => Ok(Wake::Elapsed),
        Some(woken) => woken.unwrap_or_else(|_| Err(fault::ended())),
    }
}
