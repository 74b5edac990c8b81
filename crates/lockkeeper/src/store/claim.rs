//! What goes to a store and what comes back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{Error, LockName, random};

/// The longest life of a claim that waits.
const WAIT_TTL_MAX: Duration = Duration::from_secs(5);

/// What a session is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SessionSpec {
    /// How long a holder may believe without a renewal.
    pub ttl: Duration,
    /// How long a waiter lives without a renewal.
    pub wait_ttl: Duration,
    /// How much longer than `ttl` the store keeps what was not released.
    pub lock_delay: Duration,
    /// Whether it outlives the process: no connection, no file of the process is to end it.
    pub detached: bool,
}

impl SessionSpec {
    /// A session of this ttl and lock-delay that ends with its process; `wait_ttl` is the ttl, at most 5 s.
    pub fn new(ttl: Duration, lock_delay: Duration) -> Self {
        Self { ttl, wait_ttl: ttl.min(WAIT_TTL_MAX), lock_delay, detached: false }
    }
}

/// What a store answers to [`open`](super::Store::open).
#[derive(Clone, Debug)]
pub struct Opened {
    /// The new session.
    pub id: SessionId,
    /// The ttl that the store grants.
    pub ttl: Duration,
}

/// A session, as the store that opened it names it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// A store's own name for a session. Secret where it authorises anything.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// 128 random bits in hex, for a store that gives sessions no names of its own.
    pub fn random() -> Self {
        Self(HEXLOWER.encode(&random::bits128()).into())
    }

    /// The text that the store chose.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId(#{})", short_hash(self.0.as_bytes()))
    }
}

/// The id of a claim: 128 random bits, new for every attempt to acquire, chosen before the first byte is sent.
///
/// It is the only proof of ownership, and authorises the release: `Debug` shows a hash of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId([u8; 16]);

impl ClaimId {
    /// A new id.
    pub fn random() -> Self {
        Self(random::bits128())
    }

    /// An id that a store kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bits, for the store to keep.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What may be shown of it.
    pub fn hash(&self) -> IdHash {
        let mut hash = [0; 8];
        hash.copy_from_slice(&Sha256::digest(self.0)[..8]);
        IdHash(hash)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId(#{})", self.hash())
    }
}

/// A hash of a claim's id, for listings and for naming a claim to break: 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdHash([u8; 8]);

impl fmt::Display for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdHash({self})")
    }
}

impl FromStr for IdHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::invalid(format!("{text:?} is not the hash of a claim's id: 16 hex digits"));
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| invalid())?;
        bytes.try_into().map(Self).map_err(|_| invalid())
    }
}

fn short_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..4])
}

/// Which claim: whose, of which lock, which attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// The lock.
    pub name: LockName,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The attempt.
    pub id: ClaimId,
}

/// What a claim shows to people, and carries for an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Who made it, for people; never proof.
    pub owner: Arc<str>,
    /// Why.
    pub reason: Option<Arc<str>>,
    /// The value of a candidate.
    pub value: Option<Arc<[u8]>>,
    /// The operator's epoch of this client.
    pub epoch: u16,
}

/// An attempt to acquire.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which one.
    pub key: ClaimKey,
    /// The life of a granted claim, without the delay.
    pub ttl: Duration,
    /// The life of a waiting one.
    pub wait_ttl: Duration,
    /// How much longer than `ttl` the store keeps a granted claim that nobody renews.
    pub lock_delay: Duration,
    /// What it takes, 1..=capacity.
    pub weight: u32,
    /// What there is, as this claim knows: [`MAX`](super::MAX) for a mutex or read-write lock, the number of permits for
    /// a semaphore. Claims of one line may know different numbers of permits; [`admit`](super::admit) has the rule.
    pub capacity: u32,
    /// Whether it joins the line when it cannot be granted.
    pub queue: bool,
    /// Whether an earlier request with this id may have been processed.
    pub resend: bool,
    /// The caller's own claim that this one is to take the place of.
    pub replaces: Option<ClaimId>,
    /// The longest line that it will join.
    pub max_waiters: u32,
    /// What it shows.
    pub meta: Meta,
}

/// How a claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It holds the lock.
    Granted {
        /// Its raw token, in 1..2^54.
        token: u64,
    },
    /// It waits.
    Queued {
        /// How many stand before it, holders included.
        ahead: u32,
        /// The line that this answer was read from.
        seen: Revision,
        /// When to claim again if nothing is heard.
        look_again: Duration,
    },
    /// It could not be granted, and was not to wait; nothing is left of it.
    Busy {
        /// Who holds the lock, as shown to people.
        holder: Option<Arc<str>>,
        /// When a holder's life ends if nobody renews it.
        retry_after: Option<Duration>,
        /// The line that this answer was read from.
        seen: Revision,
    },
    /// The id is spent. The engine takes a new one.
    Gone,
}

/// A state of a line: changes whenever the line does, and is only compared for equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// A claim that the engine believes in, for a renewal.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which one.
    pub key: ClaimKey,
    /// What the engine knows of it.
    pub state: LiveState,
}

/// What the engine knows of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveState {
    /// A request of it has no answer yet.
    InFlight,
    /// It waits.
    Queued,
    /// It holds.
    Granted,
}

/// What a store answers to [`renew`](super::Store::renew).
#[derive(Clone, Debug, Default)]
pub struct Renewed {
    /// One answer for each claim that was asked for, in that order.
    pub claims: Vec<Renewal>,
    /// The store's clock when it processed the request, where it tells: any origin, only differences count.
    pub server_time: Option<Duration>,
    /// Those of them that are [asked](super::Admin::request_release) to let go, as often as they are renewed.
    pub requests: Vec<(ClaimId, Asked)>,
}

/// How a claim stood when its renewal was processed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// It holds the lock, and has its full life.
    Held {
        /// Its raw token.
        token: u64,
    },
    /// It waits, and has `wait_ttl`.
    Queued,
    /// It is not there, or was broken.
    Lost(Option<Broken>),
    /// The store cannot tell. Neither renews nor kills.
    Unknown,
    /// This one was not renewed, or may not have been, while others were. Neither renews nor kills; its holder is told why.
    Failed(Error),
}

/// Who asks a holder to let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who asks.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// Who broke a claim.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Broken {
    /// Who did it.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// Whether it was removed at once, so that others may hold what it held, and not only marked.
    pub removed: bool,
}

/// A change of a live claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amend {
    /// The claim takes no more than this from now on, with the same id and the same token: 1 makes a reader of a writer, and
    /// fewer permits let others in. It never takes more than it did: a late copy of an earlier change raises nothing.
    Lower(u32),
    /// The claim takes what it takes for at least so long from now on, whatever becomes of it: its
    /// [minimum hold](super::Store#the-minimum-hold). One that lasts longer already stays as it is.
    MinHold(Duration),
    /// The value of a candidate.
    Value(Arc<[u8]>),
    /// All that it shows.
    Meta(Meta),
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amended {
    /// Done.
    Done,
    /// The claim is not live (or, for [`Amend::Lower`] and [`Amend::MinHold`], not granted); nothing was changed.
    NotLive,
}

/// What became of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Withdrawal {
    /// The claim was there.
    Removed,
    /// It was not there.
    Absent,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// The claim was granted. Gives no new time.
    Granted {
        /// Its raw token.
        token: u64,
    },
    /// Look again.
    Changed,
    /// The time is over.
    Elapsed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_only_as_a_hash() {
        let id = ClaimId::random();
        let secret = HEXLOWER.encode(id.as_bytes());
        let key = ClaimKey { name: "n".parse().unwrap(), session: SessionId::new("top-secret"), id };
        let shown = format!("{key:?}");
        assert!(!shown.contains(&secret) && !shown.contains("top-secret"), "{shown}");
        assert!(shown.contains(&id.hash().to_string()));
        assert_eq!(id.hash().to_string().parse::<IdHash>().unwrap(), id.hash());
    }
}
