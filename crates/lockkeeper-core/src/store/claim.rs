//! The requests to a store, and its answers.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::claim_key::{ClaimId, ClaimKey};
use crate::Error;

/// The longest life of a claim that waits.
const WAIT_TTL_MAX: Duration = Duration::from_secs(5);

/// What a client asks for when it opens a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionSpec {
    /// How long a guard may report the lock as held after a renewal.
    pub ttl: Duration,
    /// How long a waiter lives without a renewal.
    pub wait_ttl: Duration,
    /// How much longer than `ttl` the store keeps a claim that was not released.
    pub lock_delay: Duration,
    /// Whether the session belongs to every client that knows its id, and to no process.
    ///
    /// Neither the end of a connection, nor the end of a process, nor a restart of a store that
    /// keeps its data may end a detached session, and [several clients](super::Store#sessions) may
    /// use it. A session that is not detached belongs to the client that opened it.
    pub detached: bool,
}

impl SessionSpec {
    /// A session with this ttl and this lock-delay that ends with its process. `wait_ttl` is the
    /// ttl, at most 5 s.
    pub fn new(ttl: Duration, lock_delay: Duration) -> Self {
        Self { ttl, wait_ttl: ttl.min(WAIT_TTL_MAX), lock_delay, detached: false }
    }
}

/// What a store answers to [`open`](super::Store::open).
#[derive(Clone, Debug)]
pub struct Opened {
    /// The ttl that the store grants.
    pub ttl: Duration,
}

/// The highest number of a change.
pub const CHANGE_MAX: u64 = 1 << 53;

/// What a claim shows to people, and carries for an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The owner of the claim, as a text for people. It is never proof.
    pub owner: Arc<str>,
    /// The reason of the claim.
    pub reason: Option<Arc<str>>,
    /// The value of a candidate.
    pub value: Option<Arc<[u8]>>,
    /// The operator's epoch of this client.
    pub epoch: u16,
}

/// An attempt to acquire.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which claim.
    pub key: ClaimKey,
    /// The lifetime of a granted claim, without the lock-delay.
    pub ttl: Duration,
    /// The lifetime of a waiting claim.
    pub wait_ttl: Duration,
    /// How much longer than `ttl` the store keeps a granted claim that is not renewed.
    pub lock_delay: Duration,
    /// The weight of the claim, 1..=capacity.
    pub weight: u32,
    /// The capacity of the lock, as this claim names it: [`MAX`](super::MAX) for a mutex or
    /// read-write lock, the number of permits for a semaphore. Claims of one line may name
    /// different numbers of permits; [`admit`](super::admit) has the rule.
    pub capacity: u32,
    /// Whether the claim joins the line if it cannot be granted.
    pub queue: bool,
    /// Whether an earlier request with this id may have been processed.
    pub resend: bool,
    /// The caller's own claim that this claim is to replace.
    pub replaces: Option<ClaimId>,
    /// How many waiters the line may have at most if this claim is to join it.
    pub max_waiters: u32,
    /// What the claim shows to people.
    pub meta: Meta,
}

impl Claim {
    /// A claim of a mutex with the times of its session. The claim joins the line if it cannot be
    /// granted.
    pub fn exclusive(key: ClaimKey, session: &SessionSpec) -> Self {
        Self {
            key,
            ttl: session.ttl,
            wait_ttl: session.wait_ttl,
            lock_delay: session.lock_delay,
            weight: super::MAX,
            capacity: super::MAX,
            queue: true,
            resend: false,
            replaces: None,
            max_waiters: 1000,
            meta: Meta::default(),
        }
    }
}

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The claim holds the lock.
    Granted {
        /// Its raw token, in 1..2^54.
        token: u64,
        /// The ttl that the store keeps for the claim, without the lock-delay.
        ttl: Duration,
    },
    /// The claim waits.
    Queued {
        /// How many claims are ahead of it, holders included.
        ahead: u32,
        /// The revision of the line that this answer was read from.
        seen: Revision,
        /// How long to wait for news before the next `claim`.
        look_again: Duration,
    },
    /// The store could not grant the claim, which was not to wait. No trace of the claim is left.
    Busy {
        /// The owner of the claim that holds the lock, as a text for people.
        holder: Option<Arc<str>>,
        /// When the claim of a holder expires if it is not renewed.
        retry_after: Option<Duration>,
        /// The revision of the line that this answer was read from.
        seen: Revision,
    },
    /// The id is retired. The engine takes a new one.
    Gone,
}

/// A state of a line. It changes whenever the line does, and is only compared for equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// A claim that the engine counts as alive, listed for a renewal.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which claim.
    pub key: ClaimKey,
    /// What the engine knows of the claim.
    pub state: LiveState,
}

/// What the engine knows of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveState {
    /// A request of the claim has no answer yet.
    InFlight,
    /// The claim waits.
    Queued,
    /// The claim holds the lock.
    Granted,
}

/// What a store answers to [`renew`](super::Store::renew).
#[derive(Clone, Debug, Default)]
pub struct Renewed {
    /// One answer for each claim of the request, in the same order.
    pub claims: Vec<Renewal>,
    /// The store's clock when it processed the request, if the store reports it. Its origin does
    /// not matter: only differences count.
    pub server_time: Option<Duration>,
    /// The claims of the request whose holder is [asked](super::Admin::request_release) to release
    /// the lock. Each renewal of such a claim repeats it here.
    pub requests: Vec<(ClaimId, Asked)>,
}

/// How a claim stood when its renewal was processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The claim holds the lock. Its full lifetime has started again.
    Held {
        /// Its raw token.
        token: u64,
        /// The ttl that the store keeps for the claim, without the lock-delay.
        ttl: Duration,
    },
    /// The claim waits. Its `wait_ttl` has started again.
    Queued,
    /// The claim is not there, or was broken.
    Lost(Option<Broken>),
    /// The store does not know. The answer neither renews the claim nor ends it.
    Unknown,
    /// The store did not renew this claim, or may not have renewed it, while it renewed others. The
    /// answer neither renews the claim nor ends it. The keeper reports the error to the holder.
    Failed(Error),
}

impl Renewal {
    /// The raw token, if the claim holds the lock.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Held { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// A request to a holder to release the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The administrator that asks.
    pub by: Arc<str>,
    /// The reason of the request.
    pub reason: Arc<str>,
}

/// The break of a claim.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Broken {
    /// The administrator that broke the claim.
    pub by: Arc<str>,
    /// The reason of the break.
    pub reason: Arc<str>,
    /// Whether the claim was removed at once. Then another claim may already hold the lock.
    /// Otherwise the claim was only marked.
    pub removed: bool,
}

/// A change of a live claim. [`Store::amend`](super::Store::amend) numbers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amend {
    /// Lowers the weight of the claim to this number. The id and the token stay the same. 1 makes a
    /// reader of a writer; fewer permits let other claims in. The weight never rises: a late copy
    /// of an earlier change raises nothing.
    Lower(u32),
    /// The claim keeps its weight in the line for at least this long from now on, whatever happens
    /// to the claim: its [minimum hold](super::Store#the-minimum-hold). A minimum hold that lasts
    /// longer stays as it is.
    MinHold(Duration),
    /// Replaces the value of a candidate.
    Value(Arc<[u8]>),
    /// Replaces all that the claim shows.
    Meta(Meta),
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    /// The claim was changed.
    Done,
    /// The claim is not live (or, for [`Amend::Lower`] and [`Amend::MinHold`], not granted, or, for
    /// [`Amend::MinHold`], broken); nothing was changed.
    NotLive,
    /// A change with a higher number was applied before; nothing was changed.
    Older {
        /// The number of the last change that was applied.
        last: u64,
    },
}

impl Amended {
    /// What becomes of the change with this number, where `last` is the number of the last change
    /// that was applied to the claim. `None`: it is applied.
    pub fn of_number(number: u64, last: u64) -> Option<Self> {
        match number.cmp(&last) {
            Ordering::Greater => None,
            // The same change, sent twice.
            Ordering::Equal => Some(Self::Done),
            Ordering::Less => Some(Self::Older { last }),
        }
    }
}

/// The result of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The claim was there, and was removed.
    Removed,
    /// The claim was not there.
    Absent,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The claim was granted. This starts no new lifetime.
    Granted {
        /// Its raw token.
        token: u64,
    },
    /// Look again.
    Changed,
    /// The time of the wait is over.
    Elapsed,
}
