//! Mutants of grants, of tokens, and of removals.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{Mutant, Seen, entry_of, granted_anyhow};
use lockkeeper::store::{Amend, Amended, Claim, ClaimKey, IdHash, MAX, Store, Verdict, Withdrawal};
use lockkeeper::time::Clock;
use lockkeeper::{LockName, Result};

/// A release deletes the lock, even if another claim holds it.
#[derive(Debug, Default)]
pub struct ReleaseWithoutOwnerCheck(Seen);

#[async_trait]
impl Mutant for ReleaseWithoutOwnerCheck {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(claim);
        right.claim(claim).await
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        let line = right.line(&key.name).await?;
        let holder = line.entries.iter().find(|e| e.granted).and_then(|e| self.0.get(e.id));
        right.withdraw(holder.as_ref().map_or(key, |claim| &claim.key), tombstone).await
    }
}

/// Tokens are the time in seconds: two holders within one second have the same token.
#[derive(Debug, Default)]
pub struct TokenFromAClock;

#[async_trait]
impl Mutant for TokenFromAClock {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        Ok(match right.claim(claim).await? {
            Verdict::Granted { ttl, .. } => {
                let token = 1 + Clock::boot().now().as_nanos() / 1_000_000_000;
                Verdict::Granted { token, ttl }
            }
            other => other,
        })
    }
}

/// A claim is granted when it fits beside the holders, even if other claims wait before it.
#[derive(Debug, Default)]
pub struct AnyThatFits;

#[async_trait]
impl Mutant for AnyThatFits {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        let line = right.line(&claim.key.name).await?;
        let held: u64 =
            line.entries.iter().filter(|e| e.granted).map(|e| u64::from(e.weight)).sum();
        let fits = held + u64::from(claim.weight) <= u64::from(claim.capacity);
        Ok(match verdict {
            Verdict::Queued { .. } | Verdict::Busy { .. } if fits => {
                granted_anyhow(right, claim).await?
            }
            verdict => verdict,
        })
    }
}

/// A claim is granted when its own weight fits the capacity.
#[derive(Debug, Default)]
pub struct OwnWeightOnly;

#[async_trait]
impl Mutant for OwnWeightOnly {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        Ok(match verdict {
            Verdict::Queued { .. } | Verdict::Busy { .. } if claim.weight <= claim.capacity => {
                granted_anyhow(right, claim).await?
            }
            right => right,
        })
    }
}

/// A claim that the store refuses stays in line all the same.
#[derive(Debug, Default)]
pub struct TryThatStays;

#[async_trait]
impl Mutant for TryThatStays {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(&Claim { queue: true, ..claim.clone() }).await?;
        Ok(match verdict {
            Verdict::Queued { seen, .. } if !claim.queue => {
                Verdict::Busy { holder: None, retry_after: None, seen }
            }
            right => right,
        })
    }
}

/// A holder that claims again while others wait gets the answer `Queued`.
#[derive(Debug, Default)]
pub struct UnstickyGrant(Seen);

#[async_trait]
impl Mutant for UnstickyGrant {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let first = self.0.remember(claim);
        let verdict = right.claim(claim).await?;
        let line = right.line(&claim.key.name).await?;
        Ok(match verdict {
            Verdict::Granted { .. } if !first && line.entries.len() > 1 => Verdict::Queued {
                ahead: 0,
                seen: line.revision,
                look_again: Duration::from_secs(1),
            },
            right => right,
        })
    }
}

/// A claim of a semaphore is granted when it fits beside the holders by its own capacity, even if
/// they name other capacities.
#[derive(Debug, Default)]
pub struct OwnCapacityOnly;

#[async_trait]
impl Mutant for OwnCapacityOnly {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        let line = right.line(&claim.key.name).await?;
        let (held, waiting): (Vec<_>, Vec<_>) =
            line.entries.iter().partition(|entry| entry.granted);
        let held: u64 = held.iter().map(|entry| u64::from(entry.weight)).sum();
        let fits =
            claim.capacity != MAX && held + u64::from(claim.weight) <= u64::from(claim.capacity);
        let is_first = waiting.first().is_none_or(|first| first.id == claim.key.id.hash());
        Ok(match verdict {
            Verdict::Queued { .. } | Verdict::Busy { .. } if fits && is_first => {
                granted_anyhow(right, claim).await?
            }
            verdict => verdict,
        })
    }
}

/// The first capacity of a name counts for all its claims, even if they name other capacities.
#[derive(Debug, Default)]
pub struct FirstCapacityForAll(Mutex<HashMap<LockName, u32>>);

#[async_trait]
impl Mutant for FirstCapacityForAll {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let first = *self.0.lock().unwrap().entry(claim.key.name.clone()).or_insert(claim.capacity);
        right.claim(&Claim { capacity: first, ..claim.clone() }).await
    }
}

/// The store compares names as a database compares text: without regard to case.
#[derive(Debug, Default)]
pub struct FoldedNames;

#[async_trait]
impl Mutant for FoldedNames {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let mut claim = claim.clone();
        claim.key.name = LockName::new(&claim.key.name.as_str().to_lowercase())?;
        right.claim(&claim).await
    }
}

/// A reader leaves the line and joins it again to become a writer.
#[derive(Debug, Default)]
pub struct UpgradeInTwoSteps(Mutex<HashMap<IdHash, ClaimKey>>);

#[async_trait]
impl Mutant for UpgradeInTwoSteps {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().insert(claim.key.id.hash(), claim.key.clone());
        if let Some(old) = claim.replaces {
            let old = self.0.lock().unwrap().get(&old.hash()).cloned();
            right.withdraw(&old.unwrap_or_else(|| claim.key.clone()), None).await?;
        }
        right.claim(&Claim { replaces: None, ..claim.clone() }).await
    }
}

/// A writer leaves the line and joins it again to become a reader.
#[derive(Debug, Default)]
pub struct DowngradeByLeaving(Seen);

#[async_trait]
impl Mutant for DowngradeByLeaving {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(claim);
        right.claim(claim).await
    }

    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        match (change, self.0.get(key.id.hash())) {
            (Amend::Lower(weight), Some(claim)) => {
                right.withdraw(key, None).await?;
                right.claim(&Claim { weight: *weight, ..claim }).await?;
                Ok(Amended::Done)
            }
            _ => right.amend(key, number, change).await,
        }
    }
}

/// A guard that gives permits back gets the answer `Done`, and the store does not lower its claim.
#[derive(Debug, Default)]
pub struct KeepsWhatIsGivenBack;

#[async_trait]
impl Mutant for KeepsWhatIsGivenBack {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        match change {
            Amend::Lower(_) => Ok(Amended::Done),
            _ => right.amend(key, number, change).await,
        }
    }
}

/// A claim takes the weight of the latest change, even if that weight is more than the claim has.
#[derive(Debug, Default)]
pub struct RaisesWhatWasLowered(Seen);

#[async_trait]
impl Mutant for RaisesWhatWasLowered {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(claim);
        right.claim(claim).await
    }

    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let weight = entry_of(right, key).await?.map(|entry| entry.weight);
        match (change, self.0.get(key.id.hash())) {
            (Amend::Lower(more), Some(claim)) if weight.is_some_and(|weight| weight < *more) => {
                right.withdraw(key, None).await?;
                right.claim(&Claim { weight: *more, ..claim }).await?;
                Ok(Amended::Done)
            }
            _ => right.amend(key, number, change).await,
        }
    }
}
