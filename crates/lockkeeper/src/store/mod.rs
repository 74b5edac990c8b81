//! The contract between lockkeeper and a store. Written for people who implement one; users of locks never call it.
//!
//! A lock is a *line* of weighted claims ([`admit`] is the rule). A store keeps the lines, and knows two things about
//! each claim: whether it is live, and whether it was granted. All kinds of locks, waiting, renewing, deadlines and
//! cleaning up are built once, on top of the methods of [`Store`].

mod admin;
pub mod admit;
mod capability;
mod claim;
mod line;
mod losses;
pub mod refusal;
mod shared;

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::{Admin, Evict, Evicted, Target};
pub use self::capability::{Admission, Capabilities, Expiry, Fencing, Wakes};
pub use self::claim::{
    Amend, Amended, Asked, Broken, Claim, ClaimId, ClaimKey, IdHash, Live, LiveState, Meta, Opened, Renewal, Renewed,
    Revision, SessionId, SessionSpec, Verdict, Wake, Withdrawal,
};
pub use self::line::{Entry, Interest, Line};
pub(crate) use self::losses::Listeners;
pub use self::losses::Losses;
use crate::{LockName, Result};

/// The weight, and the capacity, of an exclusive claim.
pub const MAX: u32 = u32::MAX;

/// How long a tombstone stands at least.
pub const TOMBSTONE_MIN: Duration = Duration::from_secs(60);

/// A system that keeps lines of claims.
///
/// `Display` is the store's address without secrets, as errors show it (`redis://10.0.0.5:6379`). `Debug` shows no
/// secrets either.
///
/// # What every method MUST hold to
/// - **Idempotent.** The same request may arrive twice, late, or after a later one of the same id. None of these may
///   grant anything that was withdrawn, nor withdraw anything but the id that is named.
/// - **In order.** A request takes its place in the client's order at the *first poll* of its future. The requests of
///   one client are processed in that order; those of different clients in any.
/// - **Not cancelled half-way.** The engine polls what changes something to its end. A store may rely on it, and MUST
///   itself bound the time a call takes (a lost connection is an answer).
/// - **The store's own clock** decides that a claim has expired. A client never sends a time of day.
/// - **Errors say what they know.** [`Effect::None`](crate::Effect) only if the request cannot have been processed.
///   [`ErrorKind::Unavailable`](crate::ErrorKind) is for a store that did not answer, never for a busy lock. The
///   engine adds the name of the lock and of the store.
///
/// # Two lifetimes
/// A claim that waits lives on its `wait_ttl` (at most 5 s), so that a dead waiter at the head costs seconds. A
/// granted one lives on `ttl + lock_delay`, counted from the last claim or renewal of it that the store processed; the
/// holder believes in `ttl` only. A grant that the store *pushes* gives no new time: the claim stays on the life that
/// it has until its own next request.
///
/// # The minimum hold
/// [`Amend::MinHold`] has a granted claim take its weight from the line for at least that long, on the store's clock. A
/// store whose [`min_hold_max`](Capabilities::min_hold_max) is not zero MUST keep it so:
/// - A granted claim that is withdrawn, or whose life or session ends, before its minimum hold is over, is *kept*: it
///   stands in the line as it stood, with its weight and its token, until the minimum hold is over. Nobody has it any
///   more: its id is not known to `claim`, `renew`, `amend` and `withdraw`.
/// - The end of a minimum hold wakes those who wait, as the end of a life does. [`Verdict::Queued`] and
///   [`Verdict::Busy`] say when to look again by the end of what is kept, too.
/// - A claim that [replaces](Claim::replaces) another inherits its minimum hold.
/// - [`Admin::evict`] ends a minimum hold: a marked claim ends with its life, and what is kept is removed at once.
#[async_trait]
pub trait Store: Debug + Display + Send + Sync + 'static {
    /// What this store can do. Never changes once the store was opened, and does no I/O.
    fn capabilities(&self) -> Capabilities;

    /// The operations of an administrator, where the store has them.
    fn admin(&self) -> Option<&dyn Admin>;

    /// Begins a session: what the claims of one client with one ttl live and die with, where the store works so.
    ///
    /// Returns the ttl that the store grants, which may be longer or shorter than the one asked for.
    ///
    /// # Errors
    /// `Unsupported` when a duration is out of the store's range, naming the range.
    async fn open(&self, session: &SessionSpec) -> Result<Opened>;

    /// Renews the session and exactly the claims in `live`, and answers for each, in the order of `live`.
    ///
    /// - A claim that stands granted is `Held`, and its life starts anew at ttl + lock_delay.
    /// - A claim that waits is `Queued`, and its life starts anew at wait_ttl; if it has become admissible it MAY be
    ///   granted by this very request.
    /// - A claim that is not there, or is marked as broken, is `Lost`. `renew` MUST NOT create or revive one.
    /// - A claim whose state is [`LiveState::InFlight`] and that is not there is `Unknown`: it may still arrive.
    /// - The answer describes the claim *as it was when the request was processed*. A healthy session proves nothing
    ///   about a claim.
    ///
    /// Where life belongs to the session, the engine lists all claims of it that it believes in, at least once in every
    /// third of the ttl; elsewhere it lists those that are due. Claims that no renewal has listed for a whole life
    /// (ttl + lock_delay) are leftovers of lost replies, and a store whose claims live as long as the session MUST
    /// remove them. It MUST NOT remove them sooner: one list may be old (a late copy), or miss a claim that was made
    /// while it was on its way.
    ///
    /// # Errors
    /// `SessionLost` when the session is gone, and all its claims with it. Any other error proves nothing.
    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed>;

    /// Ends the session, and withdraws every claim of it, those in `live` and any other. Idempotent.
    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()>;

    /// Puts a claim into the line of its name, or tells how it stands.
    ///
    /// In this order:
    /// 1. An unknown session: `SessionLost`, on stores whose claims belong to sessions.
    /// 2. A tombstoned id: `Gone`.
    /// 3. Dead claims at the front of the line are removed, and the claims that become admissible by it are granted
    ///    and woken, whatever this request's own outcome is.
    /// 4. A known id: its state, **and its life starts anew**. A grant is sticky: never from granted back to queued.
    ///    One that is marked as broken is `Gone` instead, and its life stays as it is. One whose life is over is not
    ///    known, wherever in the line it stood.
    /// 5. `resend` and not known: the id is tombstoned in the same step, and the answer is `Gone`.
    /// 6. A live claim of another kind, a semaphore beside a lock ([`admit::same_kind`]): `Mismatch`. A live claim of a
    ///    higher epoch: `Mismatch`. Semaphores of different capacities stand in one line.
    /// 7. `replaces` names the caller's own claim: if that is the only live claim, the new one takes its place with a
    ///    new token, atomically; if not, `Busy`, and the old one stays.
    /// 8. The rule admits it: `Granted`, with a token higher than every earlier one of this name.
    /// 9. `queue`: it joins the end of the line (`Queued`), unless `max_waiters` are waiting (`QueueFull`).
    /// 10. Otherwise `Busy`, and no trace of it is left.
    async fn claim(&self, claim: &Claim) -> Result<Verdict>;

    /// Changes a live claim of the caller in place: lowers its weight to that of a reader (and wakes those who become
    /// admissible), or replaces what it shows.
    ///
    /// [`Amended::NotLive`] when the claim is not there, has expired, or is not granted and the change is `Shared`.
    async fn amend(&self, key: &ClaimKey, change: &Amend) -> Result<Amended>;

    /// Removes exactly this id, granted or waiting, and wakes those who become admissible. Idempotent.
    ///
    /// [`Withdrawal::Absent`] tells a holder that it had lost the lock. A store whose driver repeats a request by itself
    /// answers what the first one found, or fails with an unknown effect: the second one finds nothing.
    ///
    /// With a `tombstone` the id stays known as gone for that long, so that a late copy of its claim is answered
    /// `Gone`; the engine gives one when the outcome of a claim was ever unknown.
    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal>;

    /// Waits until looking again is worth while, for at most `within`. It changes nothing that others decide by,
    /// and may be dropped.
    ///
    /// - [`Interest::Claim`]: `Granted` once the claim stands granted; `Changed` when it is not there any more, when
    ///   those ahead of it may be dead, or when the store lost sight of it (a lost subscription).
    /// - [`Interest::Name`]: `Changed` as soon as the line is not at `seen` any more.
    ///
    /// A wake-up is a hint: the truth is the next `claim` or `line`. A lost one costs time, never correctness.
    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake>;

    /// The line as it stands: live claims only, in order. Changes nothing.
    async fn line(&self, name: &LockName) -> Result<Line>;

    /// Where a claim stands, in the store's own terms, for a comparison in the user's own transaction; `None` where the
    /// store has no such thing. Does no I/O: it tells where the claim would be.
    fn place(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        let _ = key;
        None
    }

    /// Names a keeper that is to hear at once of losses that its renewals would find later. Each keeper calls it once,
    /// when it connects. It does no I/O.
    ///
    /// - A store that learns that a claim was lost MAY call [`Losses::tell`].
    /// - A store that learns that somebody [asks](Admin::request_release) for a claim SHOULD call [`Losses::requested`].
    /// - A store with connections SHOULD call [`Losses::reconnected`] each time that a connection on which it claims or
    ///   renews was made again, and MUST NOT rely on being heard.
    ///
    /// No promise depends on it: the next renewal says the same, at most a third of a ttl later. So a store may do
    /// without, as this default does.
    fn tell_losses(&self, to: Losses) {
        drop(to);
    }
}
