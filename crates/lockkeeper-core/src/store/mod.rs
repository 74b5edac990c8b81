//! The contract between lockkeeper and a store, for authors of a store. Users of locks never call
//! it.
//!
//! A lock is a *line* of weighted claims: first the holders, then the queue of the waiters.
//! [`admit`] has the rule that decides which claims hold the lock. A store keeps the lines, and
//! knows two facts about each claim: whether it is live, and whether it was granted. The engine of
//! lockkeeper builds everything else on the methods of [`Store`]: all kinds of locks, waiting,
//! renewals, deadlines and clean-up.

mod admin;
pub mod admit;
mod capability;
mod claim;
mod claim_key;
mod driver;
mod finding;
mod forward;
mod held;
mod id;
mod limits;
mod line;
mod losses;
mod poll;
pub mod refusal;
mod shared;

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::{Admin, Evict, Evicted, Target};
pub use self::capability::{Admission, Capabilities, Elsewhere, Expiry, Fencing, Wakes};
pub use self::claim::{
    Amend, Amended, Asked, Broken, CHANGE_MAX, Claim, Live, LiveState, Meta, Opened, Renewal,
    Renewed, Revision, SessionSpec, Verdict, Wake, Withdrawal,
};
pub use self::claim_key::{ClaimId, ClaimKey, IdHash, SessionId};
pub use self::driver::{Driver, DriverLayout, Examined, Examining, Initializing, Opening};
#[doc(hidden)]
pub use self::finding::median;
#[doc(hidden)]
pub use self::finding::said_once;
pub use self::finding::{Finding, Level};
pub use self::held::HeldClaim;
pub use self::id::StoreId;
pub use self::limits::{MAX, TOMBSTONE_MIN};
pub use self::line::{Entry, Interest, Line};
pub use self::losses::Losses;
pub use self::poll::{Pace, poll};
#[doc(inline)]
pub use crate::forward_store;
use crate::{LockName, Result};

/// A system that keeps lines of claims.
///
/// `Display` writes the address of the store without secrets, as errors show it
/// (`redis://10.0.0.5:6379`). `Debug` shows no secrets either.
///
/// # What every method MUST hold to
/// - **Idempotent.** The same request may arrive twice, late, or after a later request of the same
///   id. None of these may grant anything that was withdrawn, and none may withdraw anything but
///   the id that it names.
/// - **In order.** A request takes its place in the client's order at the *first poll* of its
///   future. The store processes the requests of one client in that order; it may process those of
///   different clients in any order.
/// - **Not cancelled half-way.** The engine polls each call that changes something to its end. A
///   store may rely on this, and MUST itself limit the time that a call takes (a lost connection is
///   an answer).
/// - **The store's own clock** decides that a claim has expired. A client never sends a time of
///   day.
/// - **Errors say what the store knows.** [`Effect::None`](crate::Effect) only if the request
///   cannot have been processed. [`ErrorKind::Unavailable`](crate::ErrorKind) is for a store that
///   did not answer, never for a busy lock. The engine adds the name of the lock and of the store.
///
/// # Two lifetimes
/// A waiting claim lives for its `wait_ttl` (at most 5 s), so that a dead waiter at the head of the
/// queue costs seconds. A granted claim lives for `ttl + lock_delay`, counted from the last `claim`
/// or `renew` of this claim that the store processed. Its guard reports the lock as held for `ttl`
/// only. A grant that the store *pushes* starts no new lifetime: the claim keeps the lifetime that
/// it has until its own next request.
///
/// # Sessions
/// The caller chooses the id of a session, as it chooses the ids of claims. A session that is not
/// detached belongs to the client that opened it: no other client uses it. A store that is
/// [`resumable`](Capabilities::resumable) MUST let several clients use one
/// [detached](SessionSpec::detached) session at once:
/// - Each method takes the session, and the claims that other clients made in it, as if this client
///   had made them.
/// - The store's clock decides that the session has expired, whichever client renewed it. No client
///   deduces this from its own renewals.
/// - What a client believes depends on the answers that it got itself, never on a renewal of
///   another client.
///
/// # The minimum hold
/// With [`Amend::MinHold`] a granted claim takes its weight from the line for at least that long,
/// on the store's clock. A store whose [`min_hold_max`](Capabilities::min_hold_max) is not zero
/// MUST keep this:
/// - A granted claim is *kept* if, before its minimum hold is over, it is withdrawn, it expires, or
///   its session ends. A kept claim stays in the line with its weight and its token until the
///   minimum hold is over. It belongs to no client: `claim`, `renew`, `amend` and `withdraw` do not
///   know its id.
/// - The end of a minimum hold wakes the waiters, as the expiry of a claim does. The times to look
///   again in [`Verdict::Queued`] and [`Verdict::Busy`] take the end of a kept claim into account
///   too.
/// - A claim that [replaces](Claim::replaces) another claim inherits its minimum hold.
/// - [`Admin::evict`] ends a minimum hold: a marked claim ends with its lifetime, and a kept claim
///   is removed at once. A marked claim gets no other minimum hold: [`Amended::NotLive`].
#[async_trait]
pub trait Store: Debug + Display + Send + Sync + 'static {
    /// What this store can do. The answer never changes once the store was opened. Does no I/O.
    fn capabilities(&self) -> Capabilities;

    /// The operations of an administrator, if the store has them.
    fn admin(&self) -> Option<&dyn Admin>;

    /// Opens a session with an id that the caller has chosen: on some stores the claims of one
    /// client with one ttl live and end with their session.
    ///
    /// Returns the ttl that the store grants. That ttl may be longer or shorter than the requested
    /// one.
    ///
    /// **The same id is the same session.** The caller may repeat the request, after a lost answer
    /// for example. A repeat finds the session with all its claims, and its lifetime starts again.
    /// If the session is detached, the repeat may come through another client.
    ///
    /// # Errors
    /// - `Unsupported` when a duration is out of the store's range. The message names the range.
    /// - `Invalid` when the session is open with other durations, or is detached while the request
    ///   is not, or the reverse, on stores whose claims belong to sessions. The session stays as it
    ///   is.
    /// - `SessionLost` when the session with this id has ended, and the store remembers it. A store
    ///   MUST remember a closed session for [`TOMBSTONE_MIN`], for all clients if the session was
    ///   detached, and otherwise for the client that opened it. A store MAY forget a session that
    ///   has expired. Then the id opens a session without claims: no claim of the earlier session
    ///   comes back.
    /// - `SessionLost`, too, when something that is not of this session has the place that its id
    ///   gives it in the store. The store MUST NOT touch the other's data.
    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened>;

    /// Renews the session and exactly the claims in `live`. Answers for each claim, in the order of
    /// `live`.
    ///
    /// - A granted claim is `Held`, and its lifetime of ttl + lock_delay starts again. The answer
    ///   has the ttl that the store keeps, whichever client and whichever request gave it.
    /// - A waiting claim is `Queued`, and its lifetime of wait_ttl starts again. If the claim has
    ///   become admissible, this request MAY grant it.
    /// - A claim that is not there, or is marked as broken, is `Lost`. `renew` MUST NOT create or
    ///   revive a claim.
    /// - A claim that is not there and whose state is [`LiveState::InFlight`] is `Unknown`: it may
    ///   still arrive.
    /// - The answer describes the claim *as it was when the request was processed*. A healthy
    ///   session proves nothing about a claim.
    ///
    /// Where claims live as long as their session, the engine lists all claims of the session that
    /// it counts as alive, at least once in every third of the ttl. Elsewhere it lists the claims
    /// that are due. A claim that no renewal has listed for a whole lifetime (ttl + lock_delay) is
    /// a leftover of a lost reply. A store whose claims live as long as the session MUST remove
    /// leftovers. It MUST NOT remove them sooner: one list may be old (a late copy), or may miss a
    /// claim that was made while the list was on its way.
    ///
    /// A list speaks for the claims that it names, and for no other claim. Several clients of a
    /// session may renew it with different lists: each list keeps its claims, and takes no claim
    /// from another list. So a claim is a leftover only if no renewal *through any client* has
    /// listed it for a whole lifetime.
    ///
    /// # Errors
    /// `SessionLost` when the session is gone, and with it all its claims. Any other error proves
    /// nothing.
    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed>;

    /// Ends the session, and withdraws every claim of the session: the claims in `live` and any
    /// other. Idempotent.
    ///
    /// A client may close a detached session that it did not open. On a store whose claims expire
    /// one by one, such a close need not know the claims that other clients made: it withdraws the
    /// claims in `live` and its own, and an unlisted claim of another client ends with its
    /// lifetime.
    ///
    /// Tombstones stay for their time, and the store remembers the id: see [`open`](Self::open).
    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()>;

    /// Puts a claim into the line of its name, or returns the state of a claim that is already
    /// there.
    ///
    /// The store checks in this order:
    /// 1. The session is unknown: `SessionLost`, on stores whose claims belong to sessions.
    /// 2. The id is tombstoned: `Gone`.
    /// 3. The store removes dead claims at the front of the line, then grants and wakes the claims
    ///    that become admissible by this. It does so whatever the outcome of this request is.
    /// 4. The id is known: the answer is its state, **and its lifetime starts again**. A grant is
    ///    sticky: a granted claim never becomes queued again. A claim that is marked as broken is
    ///    `Gone` instead, and its lifetime does not start again. A claim that has expired is not
    ///    known, wherever in the line it was. The times of a claim are those of the first request
    ///    that the store processed, or of its session: the ttl of a later copy changes nothing, and
    ///    `Granted` has the ttl that the store keeps. From now on a waiting claim is
    ///    [woken](Self::wait) at the client of this request.
    /// 5. `resend` is set and the id is not known: the store tombstones the id in the same step and
    ///    answers `Gone`.
    /// 6. A live claim in the line is of another kind, a semaphore beside a lock
    ///    ([`admit::same_kind`]): `Mismatch`. A live claim has a higher epoch: `Mismatch`.
    ///    Semaphores of different capacities may be in one line.
    /// 7. `replaces` names the caller's own claim: if that is the only live claim, the new claim
    ///    takes its place with a new token, atomically. If not, the answer is `Busy`, and the old
    ///    claim stays.
    /// 8. The rule admits the claim: `Granted`, with a token higher than every earlier token of
    ///    this name.
    /// 9. `queue` is set: the claim joins the end of the line (`Queued`), unless `max_waiters` are
    ///    waiting (`QueueFull`).
    /// 10. Otherwise `Busy`, and no trace of the claim is left.
    async fn claim(&self, claim: &Claim) -> Result<Verdict>;

    /// Changes a live claim of the caller in place: lowers its weight and wakes the claims that
    /// become admissible, begins its minimum hold, or replaces what it shows.
    ///
    /// The caller numbers the changes of a claim, in 1..=[`CHANGE_MAX`]. The store keeps the number
    /// of the last change that it applied to the claim, of whatever kind, and applies a change only
    /// if its number is higher ([`Amended::of_number`]). So a late copy of an older change changes
    /// nothing, through whichever client it comes. A claim that [replaces](Claim::replaces) another
    /// claim has had no change.
    /// - The number of the last change: `Done`, and nothing is changed. It is the same change, sent
    ///   twice.
    /// - A lower number: [`Amended::Older`], with the last number. A caller that does not know the
    ///   last number of a claim, since another process has changed it, learns the number from this.
    ///
    /// Two callers that change one claim must not use one number for two changes: the second change
    /// would count as a copy of the first one. So the engine leaves out a random count of numbers
    /// before each change.
    ///
    /// [`Amended::NotLive`] when the claim is not there or has expired. Also when the claim is not
    /// granted and the change is [`Amend::Lower`] or [`Amend::MinHold`].
    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended>;

    /// Removes exactly this id, granted or waiting, and wakes the claims that become admissible.
    /// Idempotent.
    ///
    /// [`Withdrawal::Absent`] reports to a holder that it had already lost the lock. If the driver
    /// of a store repeats a request on its own, the second request finds nothing. Such a store
    /// answers with the result of the first request, or fails with an unknown effect.
    ///
    /// With a `tombstone` the id stays known as gone for that long, so a late copy of its claim
    /// gets `Gone`. The tombstone belongs to no session: it stands for its time although the
    /// session is closed or ends. The engine sets a tombstone if the outcome of a claim was ever
    /// unknown.
    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal>;

    /// Waits until another look is worthwhile, for at most `within`. The wait changes nothing that
    /// decides about a claim. The future may be dropped.
    ///
    /// - [`Interest::Claim`]: `Granted` once the claim is granted. `Changed` when the claim is no
    ///   longer there, when the claims ahead of it may be dead, or when the store lost sight of it
    ///   (a lost subscription).
    /// - [`Interest::Name`]: `Changed` as soon as the revision of the line is no longer `seen`.
    ///
    /// A claim is woken at the client that sent it last, whichever client made it or opened its
    /// session. A late copy of an earlier client's request may be the last: then the wait of the
    /// other client ends with `Changed`, and its next `claim` is the last. Neither a wait nor a
    /// renewal through another client, nor another claim, takes the wake-up away.
    ///
    /// A wake-up is a hint: only the next `claim` or `line` has the true state. A lost wake-up
    /// costs time, never correctness.
    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake>;

    /// The live claims of this name, in order. Changes nothing.
    async fn line(&self, name: &LockName) -> Result<Line>;

    /// The id of this store: 128 random bits, kept with its data.
    ///
    /// The first client that asks makes the id, in one atomic step, so that all who ask at the same
    /// time get the same one. Every client of the same data gets it. When the data was wiped, the
    /// next answer is another id. So an answer is not kept for the next call, and a late copy of
    /// the request that made the id brings no old id back.
    ///
    /// Two stores with the same id have the same locks: a store that keeps several sets of locks
    /// beside each other has an id for each set. A
    /// [`Prefix`](https://docs.rs/lockkeeper/latest/lockkeeper/layer/struct.Prefix.html) shows
    /// other locks by the same names, and has an id of its own, which is derived from that of the
    /// store below.
    ///
    /// Two copies of the same data (a restored backup, a copied file) have the same id.
    ///
    /// # Errors
    /// `Unsupported` when something else is in the place of the id. The store does not replace it.
    async fn id(&self) -> Result<StoreId>;

    /// The key of a claim, in the store's own terms, for a comparison in a transaction of the user.
    /// `None` if the store has no such comparison. Does no I/O: the answer is the key that the
    /// claim would have.
    fn fence_key(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        let _ = key;
        None
    }

    /// Adds a listener, to which the store reports losses at once, and not only at the next
    /// renewal. Each keeper calls this method once, when it connects. Does no I/O.
    ///
    /// - A store that learns that a claim was lost MAY call [`Losses::lost`].
    /// - A store that learns that an administrator [asks](Admin::request_release) for a claim
    ///   SHOULD call [`Losses::requested`].
    /// - A store with connections SHOULD call [`Losses::reconnected`] each time it reconnects a
    ///   connection on which it claims or renews. The call MUST NOT be the only report of a loss.
    ///
    /// A store MUST NOT make these calls in the first poll of one of its own methods: the engine
    /// may hold the list of the claims then, for which the calls would wait.
    ///
    /// No promise depends on these calls: the next renewal reports the same, at most a third of a
    /// ttl later. So a store may ignore the keeper, as this default does.
    fn on_loss(&self, listener: Losses) {
        drop(listener);
    }
}
