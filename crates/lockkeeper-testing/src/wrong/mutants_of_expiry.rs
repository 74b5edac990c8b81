//! Mutants of lifetimes, and of claims that come back.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{INVENTED_TTL, Mutant, Seen, entry_of};
use lockkeeper::Result;
use lockkeeper::store::{
    Amend, Amended, Claim, ClaimKey, IdHash, Live, MAX, Opened, Renewal, Renewed, SessionId,
    SessionSpec, Store, Verdict, Withdrawal,
};

/// A withdrawn id is forgotten at once: a late copy of its claim is a new claim.
#[derive(Debug, Default)]
pub struct NoTombstone;

#[async_trait]
impl Mutant for NoTombstone {
    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        _tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        right.withdraw(key, None).await
    }
}

/// A re-send that finds nothing is `Gone`, but a copy that arrives after it is a new claim.
#[derive(Debug, Default)]
pub struct ForgetfulResend;

#[async_trait]
impl Mutant for ForgetfulResend {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        if claim.resend && entry_of(right, &claim.key).await?.is_none() {
            return Ok(Verdict::Gone);
        }
        right.claim(claim).await
    }
}

/// A holder that claims again gets the answer that it holds the lock, but its lease does not start
/// again.
#[derive(Debug, Default)]
pub struct ResendWithoutNewTtl;

#[async_trait]
impl Mutant for ResendWithoutNewTtl {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        match entry_of(right, &claim.key).await? {
            Some(holder) if holder.granted => {
                Ok(Verdict::Granted { token: holder.token.unwrap_or_default(), ttl: claim.ttl })
            }
            _ => right.claim(claim).await,
        }
    }
}

/// A renewal that finds nothing puts the claim back.
#[derive(Debug, Default)]
pub struct RenewalThatCreates(Seen);

#[async_trait]
impl Mutant for RenewalThatCreates {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(claim);
        right.claim(claim).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        for live in live {
            if let Some(claim) = self.0.get(live.key.id.hash()) {
                right.claim(&claim).await?;
            }
        }
        right.renew(session, live).await
    }
}

/// A healthy session counts as proof for every claim that was ever granted in it.
#[derive(Debug, Default)]
pub struct RenewalOfTheSession(Mutex<HashMap<IdHash, u64>>);

#[async_trait]
impl Mutant for RenewalOfTheSession {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let verdict = right.claim(claim).await?;
        if let Verdict::Granted { token, .. } = &verdict {
            self.0.lock().unwrap().insert(claim.key.id.hash(), *token);
        }
        Ok(verdict)
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let mut renewed = right.renew(session, live).await?;
        let granted = self.0.lock().unwrap();
        for (live, answer) in live.iter().zip(&mut renewed.claims) {
            if let Some(token) = granted.get(&live.key.id.hash()) {
                *answer = Renewal::Held { token: *token, ttl: INVENTED_TTL };
            }
        }
        Ok(renewed)
    }
}

/// A renewal answers `Held` for every claim in line.
#[derive(Debug, Default)]
pub struct WaiterTakenForAHolder;

#[async_trait]
impl Mutant for WaiterTakenForAHolder {
    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let mut renewed = right.renew(session, live).await?;
        for answer in renewed.claims.iter_mut().filter(|answer| **answer == Renewal::Queued) {
            *answer = Renewal::Held { token: 1, ttl: INVENTED_TTL };
        }
        Ok(renewed)
    }
}

/// A lock that was not released is granted to the next claim at the end of the ttl.
#[derive(Debug, Default)]
pub struct NoLockDelay;

#[async_trait]
impl Mutant for NoLockDelay {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        right.open(id, &SessionSpec { lock_delay: Duration::ZERO, ..spec.clone() }).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        right.claim(&Claim { lock_delay: Duration::ZERO, ..claim.clone() }).await
    }
}

/// A release frees the lock, even before a minimum hold is over.
#[derive(Debug, Default)]
pub struct NoMinHold;

#[async_trait]
impl Mutant for NoMinHold {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        match change {
            Amend::MinHold(_) => Ok(Amended::Done),
            _ => right.amend(key, number, change).await,
        }
    }
}

/// The minimum hold begins with the release of its holder, which has to stay alive for the minimum
/// hold.
#[derive(Debug, Default)]
pub struct MinHoldByTheHolder(Mutex<HashMap<IdHash, Duration>>);

#[async_trait]
impl Mutant for MinHoldByTheHolder {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let Amend::MinHold(min_hold) = change else {
            return right.amend(key, number, change).await;
        };
        self.0.lock().unwrap().insert(key.id.hash(), *min_hold);
        Ok(Amended::Done)
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        let asked = self.0.lock().unwrap().remove(&key.id.hash());
        if let Some(min_hold) = asked {
            right.amend(key, 1, &Amend::MinHold(min_hold)).await?;
        }
        right.withdraw(key, tombstone).await
    }
}

/// A waiter gets a minimum hold as soon as it asks for one.
#[derive(Debug, Default)]
pub struct MinHoldOfAWaiter;

#[async_trait]
impl Mutant for MinHoldOfAWaiter {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let amended = right.amend(key, number, change).await?;
        Ok(if matches!(change, Amend::MinHold(_)) { Amended::Done } else { amended })
    }
}

/// A claim that replaces another one begins without a minimum hold, since the old claim has left.
#[derive(Debug, Default)]
pub struct MinHoldLostByAnUpgrade;

#[async_trait]
impl Mutant for MinHoldLostByAnUpgrade {
    async fn amend(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        number: u64,
        change: &Amend,
    ) -> Result<Amended> {
        let is_writer = entry_of(right, key).await?.is_some_and(|entry| entry.weight == MAX);
        match change {
            Amend::MinHold(_) if !is_writer => Ok(Amended::Done),
            _ => right.amend(key, number, change).await,
        }
    }
}

/// A kept claim still belongs to its holder: a second withdrawal finds it.
#[derive(Debug, Default)]
pub struct KeepsForItsHolder(Mutex<HashSet<IdHash>>);

#[async_trait]
impl Mutant for KeepsForItsHolder {
    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        let withdrawal = right.withdraw(key, tombstone).await?;
        let is_kept = entry_of(right, key).await?.is_some_and(|entry| entry.kept);
        let is_first = self.0.lock().unwrap().insert(key.id.hash());
        Ok(if is_kept && !is_first { Withdrawal::Removed } else { withdrawal })
    }
}

/// A waiter lives as long as a holder: a dead waiter at the head of the queue costs a whole ttl.
#[derive(Debug, Default)]
pub struct LongLivedWaiter;

#[async_trait]
impl Mutant for LongLivedWaiter {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        right.open(id, &SessionSpec { wait_ttl: spec.ttl, ..spec.clone() }).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        right.claim(&Claim { wait_ttl: claim.ttl, ..claim.clone() }).await
    }
}

/// Closing a session withdraws the claims that its client lists, and leaves the claims that the
/// client has forgotten.
#[derive(Debug, Default)]
pub struct CloseByTheList;

#[async_trait]
impl Mutant for CloseByTheList {
    async fn close(&self, right: &dyn Store, _session: &SessionId, live: &[Live]) -> Result<()> {
        for live in live {
            right.withdraw(&live.key, None).await?;
        }
        Ok(())
    }
}

/// A renewal removes at once the claims that it does not list, though the list may be older than a
/// claim.
#[derive(Debug, Default)]
pub struct HastyLeftovers(Mutex<Vec<ClaimKey>>);

#[async_trait]
impl Mutant for HastyLeftovers {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.lock().unwrap().push(claim.key.clone());
        right.claim(claim).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let unlisted =
            |key: &ClaimKey| key.session == *session && live.iter().all(|l| l.key != *key);
        let leftovers: Vec<ClaimKey> =
            self.0.lock().unwrap().iter().filter(|key| unlisted(key)).cloned().collect();
        for key in leftovers {
            right.withdraw(&key, None).await?;
        }
        right.renew(session, live).await
    }
}
