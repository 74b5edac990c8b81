//! What an administrator may do: list locks, and break the lock of another holder.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{IdHash, Line};
use crate::{LockName, Result};

/// The operations of an administrator.
#[async_trait]
pub trait Admin: Debug + Send + Sync {
    /// Lists the lines with a live claim whose names begin with `prefix` and come after `after`:
    /// the first `limit` of them in the order of the bytes of their names.
    ///
    /// A caller that lists in pages gives the last name of a page as the `after` of the next page,
    /// until a page has fewer than `limit` lines. Such a listing shows no name twice, and it shows
    /// each lock that has a live claim during the whole listing. A lock that comes or goes
    /// meanwhile may be shown or not. Each line is as it was at one moment; on some stores another
    /// line is as it was at another moment.
    ///
    /// The store is read in bulk, with at most one request for 500 of the names that it goes
    /// through.
    /// - The memory store and the file store go through the names that they return.
    /// - etcd goes through all claims below `prefix` as they were at one moment, whatever `after`
    ///   and `limit` are, and each claim counts as a name. It has one more request for each of up
    ///   to 64 leases of holders: how long it lasts.
    /// - Redis goes through all names below `prefix` and after `after`, up to `limit`; a name that
    ///   was used within two days counts. It has one more request for each 10 000 keys of the
    ///   database, since it keeps no list of names (`SCAN`). Lines of more than 1 MiB together take
    ///   a further request for each MiB.
    /// - In a Redis Cluster each slot with locks has requests of its own, which are sent together,
    ///   and each node has requests for its keys. A lock whose slot moves to another node during
    ///   the listing may be missing.
    ///
    /// So a page of a long list costs etcd and Redis more than its share: ask for many lines at
    /// once.
    ///
    /// If another program has written to the place of a line, the answer for that line alone is
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>>;

    /// Breaks one claim of this name.
    ///
    /// [`Evict::Mark`]: the store refuses the renewals of the claim from now on and does not
    /// shorten its lifetime. So the holder learns of the break before the lock is free.
    /// [`Evict::Now`] removes the claim at once: its guard may still report the lock as held.
    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted>;

    /// Asks the present holders to release the lock, and lets the observers of the lock see a
    /// change. Returns whether a claim holds the lock.
    ///
    /// The store keeps the request with each claim that is granted and not marked as broken. The
    /// request replaces an older one. Neither a waiter nor a later claim gets the request. Where
    /// the store can push, it reports the request to the keeper of the claim at once
    /// ([`Losses::requested`](super::Losses::requested)). Where that message may be lost, each
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
