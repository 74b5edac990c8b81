//! The errors with which a store refuses a claim: all stores use the same wording.

use std::time::Duration;

use super::{Admission, Elsewhere};
use crate::duration::format_duration;
use crate::{Error, ErrorKind};

/// Other claims use the name for the other kind of lock than a claim of this capacity.
pub fn other_kind(asked: u32) -> Error {
    let (others, this) = match asked {
        super::MAX => ("a semaphore", "a mutex or read-write lock"),
        _ => ("a mutex or read-write lock", "a semaphore"),
    };
    Error::new(ErrorKind::Mismatch, format!("others use it as {others}, this is {this}"))
        .with_remedy("the same kind of lock everywhere, or again when the others have left")
}

/// Another claim has a higher epoch.
pub fn epoch(stored: u16, own: u16) -> Error {
    Error::new(ErrorKind::Mismatch, format!("others use epoch {stored}, this keeper uses {own}"))
        .with_remedy(format!("epoch={stored} here too"))
}

/// An epoch on a store whose tokens have none.
pub fn no_epoch() -> Error {
    let problem = "its tokens have no epoch, since clients of another library count them too";
    Error::new(ErrorKind::Unsupported, problem).with_remedy(
        "no epoch= and no --epoch; after a loss of the counter, a counter above the last token",
    )
}

/// The line is full.
pub fn queue_full(max_waiters: u32) -> Error {
    Error::new(ErrorKind::QueueFull, format!("the queue is full (max-waiters is {max_waiters})"))
        .with_remedy("again later, or with a higher max-waiters")
}

/// A kind of lock that the store does not have.
pub fn kind(needed: Admission, has: Admission, elsewhere: &Elsewhere) -> Error {
    let (lacks, place) = match needed {
        Admission::Exclusive => ("mutexes", elsewhere.mutexes),
        Admission::ReadWrite => ("read-write locks", elsewhere.read_write_locks),
        Admission::Weighted | Admission::Permits => ("semaphores", elsewhere.semaphores),
    };
    let (keeps, one) = match has {
        Admission::Permits | Admission::Weighted => ("semaphores", "a semaphore"),
        Admission::Exclusive => ("mutexes", "an exclusive lock"),
        Admission::ReadWrite => ("mutexes and read-write locks", "an exclusive lock"),
    };
    let message = format!("this store keeps {keeps} only, no {lacks}");
    Error::new(ErrorKind::Unsupported, message).with_remedy(format!("{one}, or {place}"))
}

/// A minimum hold on a store that has none.
pub fn no_min_hold() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this store cannot keep a lock after its release, so it has no min_hold",
    )
    .with_remedy("hold the lock for that long, or use another store")
}

/// A duration that the store cannot keep.
pub fn out_of_range(what: &str, asked: Duration, min: Duration, max: Duration) -> Error {
    let [asked, min, max] = [asked, min, max].map(format_duration);
    Error::new(ErrorKind::Unsupported, format!("this store cannot keep a {what} of {asked}"))
        .with_remedy(format!("{min} to {max}"))
}

/// A ttl with a lock-delay that are too long together.
pub fn kept_too_long(ttl: Duration, lock_delay: Duration, max: Duration) -> Error {
    let [ttl, lock_delay, max] = [ttl, lock_delay, max].map(format_duration);
    let message =
        format!("this store cannot keep a ttl of {ttl} with a lock-delay of {lock_delay}");
    Error::new(ErrorKind::Unsupported, message)
        .with_remedy(format!("a shorter ttl or lock-delay, at most {max} together"))
}

/// A session whose id is not opened again.
pub fn session_ended() -> Error {
    Error::new(ErrorKind::SessionLost, "the session with this id has ended")
        .with_remedy("a session with another id")
}

/// A session that is not detached, and that another client has opened.
pub fn other_client() -> Error {
    Error::new(
        ErrorKind::SessionLost,
        "another client has opened the session with this id, and it is not detached",
    )
    .with_remedy("a session with another id")
}

/// A session that is open with other durations.
pub fn other_durations() -> Error {
    Error::invalid(
        "the session with this id is open with another ttl, wait-ttl or lock-delay, or is not detached alike",
    )
    .with_remedy("the same durations as before, or a session with another id")
}
