//! Deliberately wrong stores, which test the suite.
//!
//! Each is a right store with one [`Mutant`] in front of it. Real lock libraries have or had
//! defects of these kinds. For each mutant the suite has a case that has to fail on it.

mod engine;
mod mutants_of_claims;
mod mutants_of_clients;
mod mutants_of_expiry;
mod mutants_of_histories;
mod mutants_of_sessions;
mod mutants_of_waking;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

pub use self::engine::{Habit, SmallEngine};
pub use self::mutants_of_claims::{
    AnyThatFits, DowngradeByLeaving, FirstCapacityForAll, FoldedNames, KeepsWhatIsGivenBack,
    OwnCapacityOnly, OwnWeightOnly, RaisesWhatWasLowered, ReleaseWithoutOwnerCheck,
    TokenFromAClock, TryThatStays, UnstickyGrant, UpgradeInTwoSteps,
};
pub use self::mutants_of_clients::{
    AddsTheLockDelay, AppliesWhatComesLast, CountsTheNamesBefore, IdOfTheClient, LatestTtlCounts,
    NumbersOfTheClient, NumbersOfTheKind, RepeatsTheTtlOfTheRequest, ShowsTheLastOneAgain,
    TakesTheWakeUpAwaySilently, WakesTheFirstClient,
};
pub use self::mutants_of_expiry::{
    CloseByTheList, ForgetfulResend, HastyLeftovers, KeepsForItsHolder, LongLivedWaiter,
    MinHoldByTheHolder, MinHoldLostByAnUpgrade, MinHoldOfAWaiter, NoLockDelay, NoMinHold,
    NoTombstone, RenewalOfTheSession, RenewalThatCreates, ResendWithoutNewTtl,
    WaiterTakenForAHolder,
};
pub use self::mutants_of_histories::{
    CountsHolders, ForgetsTheDowngraded, GivesAwayTwice, GrantOfSomebodyElse, HalfATtl,
    ReaderBesideTheUpgraded, TokenOfThePredecessor, UpgradeBesideReaders,
    UpgradeThatLeavesTheReader, WithdrawBySession,
};
pub use self::mutants_of_sessions::{
    ClosesItsOwnOnly, EmptiesOpenedSessions, LeftoversOfOneList, OpeningWithoutNewTtl, OpensOnce,
    RemembersItsOwnCloses, RenewsItsOwnOnly, ReopensWhatWasClosed, RevivesTheExpired,
    SessionOfOneClient, TakesAnyDurations, TombstoneOfTheSession,
};
pub use self::mutants_of_waking::{ListensOnlyWhileItWaits, PushThatGivesTime, SilentPurge};
use super::{Case, Crash, Harness, ServerClock, Time, Ttls, run};
use lockkeeper::layer::Faults;
use lockkeeper::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Entry, Evict, Evicted, IdHash, Interest,
    Line, Live, Opened, Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Target, Verdict,
    Wake, Withdrawal, forward_store,
};
use lockkeeper::time::Clock;
use lockkeeper::{LockName, Result};

/// The difference of one wrong store. All clients of the store share the mutant. The methods that a
/// mutant does not define behave correctly.
#[async_trait]
#[allow(
    missing_docs,
    reason = "each is the method of this name of the store, in front of the right one"
)]
pub trait Mutant: Default + fmt::Debug + Send + Sync + 'static {
    fn capabilities(&self, right: &dyn Store) -> Capabilities {
        right.capabilities()
    }

    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        right.open(id, spec).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        right.renew(session, live).await
    }

    async fn close(&self, right: &dyn Store, session: &SessionId, live: &[Live]) -> Result<()> {
        right.close(session, live).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        right.claim(claim).await
    }

    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        right.amend(key, number, change).await
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        right.withdraw(key, tombstone).await
    }

    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        right.wait(what, seen, within).await
    }

    async fn lines(
        &self,
        right: &dyn Admin,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        right.lines(prefix, after, limit).await
    }

    async fn id(&self, right: &dyn Store) -> Result<StoreId> {
        right.id().await
    }
}

/// Runs a case on a store with this mutant, and returns the failure of the case. `None` if the case
/// passes.
pub fn complaint<H: Harness, F: Mutant>(name: &str, body: impl AsyncFn(&Case)) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| run::<Mutated<H, F>>(name, &[], body))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}

/// A right store's harness with a mutant in front of every client.
#[derive(Debug)]
pub struct Mutated<H, F> {
    right: H,
    mutant: Arc<F>,
}

impl<H: Harness, F: Mutant> Harness for Mutated<H, F> {
    const TIME: Time = H::TIME;
    const ON_CRASH: Crash = H::ON_CRASH;
    const WAITERS_DIE_FIRST: bool = H::WAITERS_DIE_FIRST;
    const NAME_MAX: usize = H::NAME_MAX;

    async fn start() -> Self {
        Self { right: H::start().await, mutant: Arc::default() }
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(Wrong { right: self.right.client().await, mutant: Arc::clone(&self.mutant) })
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        self.right.crash(client).await;
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        self.right.crowd(name, round).await;
    }

    fn clock(&self) -> Clock {
        self.right.clock()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        self.right.server_clock()
    }

    fn prefix(&self) -> String {
        self.right.prefix()
    }

    fn fault_profile(&self) -> Faults {
        self.right.fault_profile()
    }

    fn short(&self) -> Ttls {
        self.right.short()
    }
}

/// A right store with a mutant in front of it.
#[derive(Debug)]
struct Wrong<F> {
    right: Arc<dyn Store>,
    mutant: Arc<F>,
}

impl<F> fmt::Display for Wrong<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.right, f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F: Mutant> Store for Wrong<F> {
    fn capabilities(&self) -> Capabilities {
        self.mutant.capabilities(&*self.right)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.right.admin().map(|_| self as &dyn Admin)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.mutant.open(&*self.right, id, spec).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        self.mutant.renew(&*self.right, session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.mutant.close(&*self.right, session, live).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.mutant.claim(&*self.right, claim).await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        self.mutant.amend(&*self.right, key, number, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        self.mutant.withdraw(&*self.right, key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        self.mutant.wait(&*self.right, interest, seen, within).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.mutant.id(&*self.right).await
    }

    forward_store! { self => self.right; line fence_key on_loss }
}

impl<F> Wrong<F> {
    /// Only the wrong store's `admin()` leads here, and it needs the admin of the right store.
    fn admin_below(&self) -> &dyn Admin {
        self.right.admin().expect("the right store has one")
    }
}

#[async_trait]
impl<F: Mutant> Admin for Wrong<F> {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        self.mutant.lines(self.admin_below(), prefix, after, limit).await
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        self.admin_below().evict(name, target, how, by, reason).await
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        self.admin_below().request_release(name, by, reason).await
    }
}

/// The ttl in an answer about a claim that the right store does not have.
const INVENTED_TTL: Duration = Duration::from_secs(30);

/// The claims that clients have sent, for mutants that need them.
#[derive(Debug, Default)]
struct Seen(Mutex<HashMap<IdHash, Claim>>);

impl Seen {
    fn remember(&self, claim: &Claim) -> bool {
        self.0.lock().unwrap().insert(claim.key.id.hash(), claim.clone()).is_none()
    }

    fn get(&self, id: IdHash) -> Option<Claim> {
        self.0.lock().unwrap().get(&id).cloned()
    }
}

/// The entry of a claim in the line, if the claim is in the line.
async fn entry_of(right: &dyn Store, key: &ClaimKey) -> Result<Option<Entry>> {
    Ok(right.line(&key.name).await?.entries.into_iter().find(|e| e.id == key.id.hash()))
}

/// A grant without an entry in the line, with the next token.
async fn granted_anyhow(right: &dyn Store, claim: &Claim) -> Result<Verdict> {
    let last = right.line(&claim.key.name).await?.last_token;
    Ok(Verdict::Granted { token: last.unwrap_or(0) + 1, ttl: claim.ttl })
}
