//! Mutants that only a sequence of requests shows, and no single request.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{INVENTED_TTL, Mutant, Seen, entry_of, granted_anyhow};
use lockkeeper::store::{
    Amend, Amended, Claim, ClaimKey, IdHash, Live, MAX, Renewal, Renewed, SessionId, Store,
    Verdict, Withdrawal,
};
use lockkeeper::{LockName, Result};

/// A released lock goes to its waiter, and to the next claim too.
#[derive(Debug, Default)]
pub struct GivesAwayTwice(Mutex<HashSet<LockName>>);

#[async_trait]
impl Mutant for GivesAwayTwice {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        let turned_away = matches!(verdict, Verdict::Queued { .. } | Verdict::Busy { .. });
        if turned_away && !claim.resend && self.0.lock().unwrap().remove(&claim.key.name) {
            return granted_anyhow(right, claim).await;
        }
        Ok(verdict)
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        let was_held = entry_of(right, key).await?.is_some_and(|entry| entry.granted);
        let withdrawal = right.withdraw(key, tombstone).await?;
        if was_held {
            self.0.lock().unwrap().insert(key.name.clone());
        }
        Ok(withdrawal)
    }
}

/// A waiting claim that is sent again gets the grant of the holder.
#[derive(Debug, Default)]
pub struct GrantOfSomebodyElse;

#[async_trait]
impl Mutant for GrantOfSomebodyElse {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        let holder =
            right.line(&claim.key.name).await?.entries.into_iter().find(|entry| entry.granted);
        Ok(match (&verdict, holder.and_then(|holder| holder.token)) {
            (Verdict::Queued { .. }, Some(token)) if claim.resend => {
                Verdict::Granted { token, ttl: claim.ttl }
            }
            _ => verdict,
        })
    }
}

/// A new holder gets the token of the holder before it.
#[derive(Debug, Default)]
pub struct TokenOfThePredecessor(Mutex<HashMap<LockName, (IdHash, u64, u64)>>);

#[async_trait]
impl Mutant for TokenOfThePredecessor {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let (token, ttl) = match right.claim(claim).await? {
            Verdict::Granted { token, ttl } => (token, ttl),
            verdict => return Ok(verdict),
        };
        let (id, name) = (claim.key.id.hash(), claim.key.name.clone());
        let mut last = self.0.lock().unwrap();
        let (holder, its_own, shown) = *last.entry(name.clone()).or_insert((id, token, token));
        if holder == id {
            return Ok(Verdict::Granted { token: shown, ttl });
        }
        last.insert(name, (id, token, its_own));
        Ok(Verdict::Granted { token: its_own, ttl })
    }
}

/// A withdrawal also removes every other claim of the same client on this lock.
#[derive(Debug, Default)]
pub struct WithdrawBySession(Mutex<Vec<ClaimKey>>);

#[async_trait]
impl Mutant for WithdrawBySession {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().push(claim.key.clone());
        right.claim(claim).await
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        let same = |other: &&ClaimKey| {
            (&other.name, &other.session) == (&key.name, &key.session) && *other != key
        };
        let others: Vec<ClaimKey> = self.0.lock().unwrap().iter().filter(same).cloned().collect();
        for other in others {
            right.withdraw(&other, None).await?;
        }
        right.withdraw(key, tombstone).await
    }
}

/// The store keeps a claim for half of the promised lifetime.
#[derive(Debug, Default)]
pub struct HalfATtl;

#[async_trait]
impl Mutant for HalfATtl {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let halved = Claim { ttl: claim.ttl / 2, wait_ttl: claim.wait_ttl / 2, ..claim.clone() };
        Ok(match right.claim(&halved).await? {
            Verdict::Granted { token, ttl } => Verdict::Granted { token, ttl: ttl * 2 },
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
        for answer in &mut renewed.claims {
            if let Renewal::Held { ttl, .. } = answer {
                *ttl *= 2;
            }
        }
        Ok(renewed)
    }
}

/// The store counts holders and not their permits: two of three permits and two more count as two.
#[derive(Debug, Default)]
pub struct CountsHolders;

#[async_trait]
impl Mutant for CountsHolders {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let weight = if claim.weight == MAX { MAX } else { 1 };
        right.claim(&Claim { weight, ..claim.clone() }).await
    }
}

/// A writer that becomes a reader is removed, and still gets the answer that it holds the lock.
#[derive(Debug, Default)]
pub struct ForgetsTheDowngraded(Mutex<HashMap<IdHash, u64>>);

#[async_trait]
impl Mutant for ForgetsTheDowngraded {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let amended = right.amend(key, number, change).await?;
        let token = entry_of(right, key).await?.and_then(|entry| entry.token);
        if let (Amend::Lower(_), Some(token)) = (change, token) {
            self.0.lock().unwrap().insert(key.id.hash(), token);
            right.withdraw(key, None).await?;
        }
        Ok(amended)
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let mut renewed = right.renew(session, live).await?;
        let forgotten = self.0.lock().unwrap();
        for (live, answer) in live.iter().zip(&mut renewed.claims) {
            if let Some(token) = forgotten.get(&live.key.id.hash()) {
                *answer = Renewal::Held { token: *token, ttl: INVENTED_TTL };
            }
        }
        Ok(renewed)
    }
}

/// A reader becomes the writer though there are other readers.
#[derive(Debug, Default)]
pub struct UpgradeBesideReaders;

#[async_trait]
impl Mutant for UpgradeBesideReaders {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        match right.claim(claim).await? {
            Verdict::Busy { .. } if claim.replaces.is_some() => granted_anyhow(right, claim).await,
            verdict => Ok(verdict),
        }
    }
}

/// A reader that became the writer still counts as a reader, and other readers are granted beside
/// it.
#[derive(Debug, Default)]
pub struct ReaderBesideTheUpgraded(Mutex<HashMap<LockName, u64>>);

#[async_trait]
impl Mutant for ReaderBesideTheUpgraded {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        if let (Verdict::Granted { token, .. }, Some(_)) = (&verdict, claim.replaces) {
            self.0.lock().unwrap().insert(claim.key.name.clone(), *token);
        }
        let upgraded = self.0.lock().unwrap().get(&claim.key.name).copied();
        let first = right
            .line(&claim.key.name)
            .await?
            .entries
            .into_iter()
            .next()
            .and_then(|entry| entry.token);
        let turned_away = matches!(verdict, Verdict::Queued { .. } | Verdict::Busy { .. });
        if turned_away && claim.weight == 1 && upgraded.is_some() && upgraded == first {
            return granted_anyhow(right, claim).await;
        }
        Ok(verdict)
    }
}

/// A reader that becomes the writer stays in line behind itself, and holds the lock again after its
/// release.
#[derive(Debug, Default)]
pub struct UpgradeThatLeavesTheReader(Seen);

#[async_trait]
impl Mutant for UpgradeThatLeavesTheReader {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(claim);
        let verdict = right.claim(claim).await?;
        let old = claim.replaces.and_then(|old| self.0.get(old.hash()));
        if let (Verdict::Granted { .. }, Some(old)) = (&verdict, old) {
            right.claim(&Claim { queue: true, resend: false, ..old }).await?;
        }
        Ok(verdict)
    }
}
