//! Mutants of claims with several clients, and of the id and the listing of a store.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::mutants_of_waking::sleep_through;
use super::{Mutant, entry_of};
use lockkeeper::store::{
    Admin, Amend, Amended, Claim, ClaimKey, IdHash, Interest, Line, Live, Renewal, Renewed,
    Revision, SessionId, Store, StoreId, Verdict, Wake,
};
use lockkeeper::{LockName, Result};

/// One client of the store.
type ClientAddress = usize;

fn client(right: &dyn Store) -> ClientAddress {
    std::ptr::from_ref(right).cast::<()>() as usize
}

/// The answer to a claim has the requested ttl, and not the ttl that the store keeps.
#[derive(Debug, Default)]
pub struct RepeatsTheTtlOfTheRequest;

#[async_trait]
impl Mutant for RepeatsTheTtlOfTheRequest {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        Ok(match right.claim(claim).await? {
            Verdict::Granted { token, .. } => Verdict::Granted { token, ttl: claim.ttl },
            verdict => verdict,
        })
    }
}

/// The ttl of an answer includes the lock-delay, on which a guard must not count.
#[derive(Debug, Default)]
pub struct AddsTheLockDelay(Mutex<HashMap<IdHash, Duration>>);

#[async_trait]
impl Mutant for AddsTheLockDelay {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().insert(claim.key.id.hash(), claim.lock_delay);
        Ok(match right.claim(claim).await? {
            Verdict::Granted { token, ttl } => {
                Verdict::Granted { token, ttl: ttl + claim.lock_delay }
            }
            verdict => verdict,
        })
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let mut renewed = right.renew(session, live).await?;
        for (live, answer) in live.iter().zip(&mut renewed.claims) {
            if let Renewal::Held { ttl, .. } = answer {
                *ttl +=
                    self.0.lock().unwrap().get(&live.key.id.hash()).copied().unwrap_or_default();
            }
        }
        Ok(renewed)
    }
}

/// The ttl of the latest copy of a claim counts.
#[derive(Debug, Default)]
pub struct LatestTtlCounts;

#[async_trait]
impl Mutant for LatestTtlCounts {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        if entry_of(right, &claim.key).await?.is_some_and(|entry| entry.granted) {
            right.withdraw(&claim.key, None).await?;
            return right.claim(&Claim { resend: false, ..claim.clone() }).await;
        }
        right.claim(claim).await
    }
}

/// A wake-up goes to the client that first sent the claim, even if another client sent the claim
/// again.
#[derive(Debug, Default)]
pub struct WakesTheFirstClient(Mutex<HashMap<IdHash, ClientAddress>>);

#[async_trait]
impl Mutant for WakesTheFirstClient {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().entry(claim.key.id.hash()).or_insert(client(right));
        right.claim(claim).await
    }

    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        let of = |key: &ClaimKey| self.0.lock().unwrap().get(&key.id.hash()).copied();
        match what {
            Interest::Claim(key) if of(key).is_some_and(|first| first != client(right)) => {
                sleep_through(within).await
            }
            _ => right.wait(what, seen, within).await,
        }
    }
}

/// A wake-up goes to the client that sent the claim last. The client before receives nothing,
/// though it may still wait.
#[derive(Debug, Default)]
pub struct TakesTheWakeUpAwaySilently(Mutex<HashMap<IdHash, ClientAddress>>);

#[async_trait]
impl Mutant for TakesTheWakeUpAwaySilently {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().insert(claim.key.id.hash(), client(right));
        right.claim(claim).await
    }

    async fn wait(
        &self,
        right: &dyn Store,
        what: Interest<'_>,
        seen: Revision,
        within: Duration,
    ) -> Result<Wake> {
        let wake = right.wait(what, seen, within).await?;
        let of = |key: &ClaimKey| self.0.lock().unwrap().get(&key.id.hash()).copied();
        match what {
            Interest::Claim(key) if of(key).is_some_and(|last| last != client(right)) => {
                sleep_through(within).await
            }
            _ => Ok(wake),
        }
    }
}

/// Numbers the changes of each claim again, so that the caller's numbers count for less than they
/// should.
#[derive(Debug)]
struct Renumbered<K> {
    last: Mutex<HashMap<K, u64>>,
    next: AtomicU64,
}

impl<K> Default for Renumbered<K> {
    fn default() -> Self {
        Self { last: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl<K: Eq + Hash> Renumbered<K> {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        of: K,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let last = self.last.lock().unwrap().get(&of).copied().unwrap_or(0);
        if let Some(amended) = Amended::of_number(number, last) {
            return Ok(amended);
        }
        let amended = right.amend(key, self.next.fetch_add(1, Ordering::Relaxed), change).await?;
        if amended == Amended::Done {
            self.last.lock().unwrap().insert(of, number);
        }
        Ok(amended)
    }
}

/// The store applies the change that comes last.
#[derive(Debug, Default)]
pub struct AppliesWhatComesLast(AtomicU64);

#[async_trait]
impl Mutant for AppliesWhatComesLast {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        _number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        right.amend(key, self.0.fetch_add(1, Ordering::Relaxed) + 1, change).await
    }
}

/// Each client has numbers of its own: a late copy through another client is applied.
#[derive(Debug, Default)]
pub struct NumbersOfTheClient(Renumbered<(IdHash, ClientAddress)>);

#[async_trait]
impl Mutant for NumbersOfTheClient {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        self.0.amend(right, key, (key.id.hash(), client(right)), number, change).await
    }
}

/// Each kind of change has numbers of its own.
#[derive(Debug, Default)]
pub struct NumbersOfTheKind(Renumbered<(IdHash, mem::Discriminant<Amend>)>);

#[async_trait]
impl Mutant for NumbersOfTheKind {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        self.0.amend(right, key, (key.id.hash(), mem::discriminant(change)), number, change).await
    }
}

/// A page begins with the name that it has to come after.
#[derive(Debug, Default)]
pub struct ShowsTheLastOneAgain;

#[async_trait]
impl Mutant for ShowsTheLastOneAgain {
    async fn lines(
        &self,
        right: &dyn Admin,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let mut lines = right.lines(prefix, None, usize::MAX).await?;
        lines.retain(|(name, _)| after.is_none_or(|after| name >= after));
        lines.truncate(limit);
        Ok(lines)
    }
}

/// A page skips as many names as the pages before had. The pages miss names when earlier names have
/// gone.
#[derive(Debug, Default)]
pub struct CountsTheNamesBefore(Mutex<usize>);

#[async_trait]
impl Mutant for CountsTheNamesBefore {
    async fn lines(
        &self,
        right: &dyn Admin,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let lines = right.lines(prefix, None, usize::MAX).await?;
        let mut shown = self.0.lock().unwrap();
        if after.is_none() {
            *shown = 0;
        }
        let page: Vec<_> = lines.into_iter().skip(*shown).take(limit).collect();
        *shown += page.len();
        Ok(page)
    }
}

/// Each client makes an id for itself.
#[derive(Debug, Default)]
pub struct IdOfTheClient(Mutex<HashMap<ClientAddress, StoreId>>);

#[async_trait]
impl Mutant for IdOfTheClient {
    async fn id(&self, right: &dyn Store) -> Result<StoreId> {
        Ok(*self.0.lock().unwrap().entry(client(right)).or_insert_with(StoreId::random))
    }
}
