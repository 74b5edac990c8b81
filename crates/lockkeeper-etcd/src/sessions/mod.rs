//! The sessions of this client. One file has one subject:
//!
//! ```text
//! known           all sessions of the client
//! session         one session, its durations, and the three parts that follow
//! leases          which leases it has; lease_requests makes, renews and revokes them
//! claims          which claims it has, and where each one is; slots has their keys
//! lists           what the lists of the keys on its leases have shown; sightings counts the time
//! life            opening, finding and closing a session
//! shared          what the clients of a detached session write for each other
//! tombstones      the leases of tombstones, which belong to no session
//! ```
//!
//! The timers of minimum holds are in `keep`.

mod claims;
mod known;
mod lease_requests;
mod leases;
mod life;
mod lists;
mod session;
mod shared;
mod sightings;
mod slots;
#[cfg(test)]
mod tests;
mod tombstones;

use std::time::Duration;

pub(crate) use self::claims::{ClaimState, WatchedBy};
pub(crate) use self::known::Sessions;
pub(crate) use self::lease_requests::random_lease;
pub(crate) use self::leases::Purpose;
pub(crate) use self::lists::{Leftover, Verdicts};
pub(crate) use self::session::Session;
pub(crate) use self::slots::KeySlot;
pub(crate) use self::tombstones::Tombstones;
use crate::{Error, ErrorKind};

/// The error of a session that etcd does not have any more.
pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::SessionLost, "etcd has ended the lease of this session")
        .with_remedy("acquire it again, in a new session")
}

/// A duration in whole seconds, the unit of etcd's leases.
pub(crate) fn seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1)
}
