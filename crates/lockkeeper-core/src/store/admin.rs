//! What an administrator may do: list locks, and break the lock of another holder.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{IdHash, Line};
use crate::{LockName, Result};

/// The operations of an administrator.
#[async_trait]
pub trait Admin: Debug + Send + Sync {
    /// Lists the lines with a live claim whose names begin with `prefix`: at most `limit`, sorted by the bytes of their
    /// names.
    ///
    /// The store is read page by page, and not line by line. If another program has written to the place of a line, the
    /// answer for that line alone is [`Unsupported`](crate::ErrorKind::Unsupported).
    async fn lines(&self, prefix: &str, limit: usize) -> Result<Vec<(LockName, Result<Line>)>>;

    /// Breaks one claim of this name.
    ///
    /// [`Evict::Mark`]: the store refuses the renewals of the claim from now on and does not shorten its lifetime. So
    /// the holder learns of the break before the lock is free. [`Evict::Now`] removes the claim at once: its guard may
    /// still report the lock as held.
    async fn evict(&self, name: &LockName, target: &Target, how: Evict, by: &str, reason: &str) -> Result<Evicted>;

    /// Asks the present holders to release the lock, and lets the observers of the lock see a change. Returns whether a
    /// claim holds the lock.
    ///
    /// The store keeps the request with each claim that is granted and not marked as broken. The request replaces an
    /// older one. Neither a waiter nor a later claim gets the request. Where the store can push, it tells the keeper of
    /// the claim at once ([`Losses::requested`](super::Losses::requested)). Where that message may be lost, each
    /// renewal of the claim repeats the request ([`Renewed::requests`](super::Renewed::requests)).
    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool>;
}

/// Which claim to break. Listings show both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The holder with this raw token.
    Token(u64),
    /// The claim whose id has this hash.
    Id(IdHash),
}

/// How to break it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Refuse its renewals; it ends by itself.
    Mark,
    /// Remove it at once. This breaks the promise to the holder.
    Now,
}

/// The result of a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The claim was there. It is now marked or removed.
    Done,
    /// There is no such claim.
    Absent,
}
