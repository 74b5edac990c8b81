//! What an administrator may do: list locks, break somebody else's.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{IdHash, Line};
use crate::{LockName, Result};

/// The operations of an administrator.
#[async_trait]
pub trait Admin: Debug + Send + Sync {
    /// The lines with a live claim whose names begin with `prefix`, sorted by the bytes of their names, at most `limit`. The
    /// store is asked for them page by page, and not line by line. What another program has written to the place of a line is
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for that line alone.
    async fn lines(&self, prefix: &str, limit: usize) -> Result<Vec<(LockName, Result<Line>)>>;

    /// Breaks one claim of this name.
    ///
    /// [`Evict::Mark`] refuses its renewals from now on and leaves its life as it is, so that the holder learns of it
    /// before the lock is free. [`Evict::Now`] removes it at once: the holder may still believe.
    async fn evict(&self, name: &LockName, target: &Target, how: Evict, by: &str, reason: &str) -> Result<Evicted>;

    /// Asks those who hold the lock now to let go, and lets its observers see a change. Whether somebody holds it.
    ///
    /// It is kept with each claim that stands granted and is not marked as broken, in the place of an older request. No
    /// waiter, and nobody who comes later, is asked. The keeper that has the claim hears of it at once, where the store
    /// can speak to it ([`Losses::requested`](super::Losses::requested)); where that may be missed, each renewal of the
    /// claim says so ([`Renewed::requests`](super::Renewed::requests)).
    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool>;
}

/// Which claim to break. Listings show both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The holder with this raw token.
    Token(u64),
    /// The claim whose id has this hash.
    Id(IdHash),
}

/// How to break it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evict {
    /// Refuse its renewals; it ends by itself.
    Mark,
    /// Remove it at once. This breaks the promise to the holder.
    Now,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evicted {
    /// The claim was there, and is marked or removed.
    Done,
    /// No such claim.
    Absent,
}
