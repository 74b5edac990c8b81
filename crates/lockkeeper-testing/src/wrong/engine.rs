//! Wrong engines: a small engine with the duties of an engine, and two variants with one defect
//! each.
//!
//! The library's engine has no switches that break it, so the tests have this small engine, on the
//! same store and under the same recorder. The right variant has to pass the checks that find the
//! wrong variants.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use crate::history::{Ask, Contestant, Held};
use crate::storm::{acquire, deadline, give_up};
use crate::{Client, Contender, Ttls};
use lockkeeper::store::{Renewal, Store, TOMBSTONE_MIN};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{Effect, Error, ErrorKind, FencingToken, LockName, LostReason, Result};

/// How an engine treats a lock that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// The hold ends at the deadline, and nothing revives it.
    Right,
    /// The engine renews after the deadline as before, and reports the lock as held until the store
    /// says that the lock is lost.
    RenewsAfterTheDeadline,
    /// The engine takes a renewal without an answer for a loss, and withdraws the claim. The holder
    /// does not learn of this.
    ReleasesOnALostReply,
}

/// An engine that only waits in line for mutexes, on stores whose claims expire one by one.
#[derive(Debug)]
pub struct SmallEngine {
    store: Arc<dyn Store>,
    clock: Clock,
    ttls: Ttls,
    name: LockName,
    habit: Habit,
}

/// The state of a claim, which the holder and the task that renews share.
#[derive(Debug)]
struct Belief {
    until: Instant,
    lost: bool,
    given_up: bool,
}

/// A lock that such an engine holds.
#[derive(Debug)]
struct SmallGuard {
    claim: Contender,
    token: FencingToken,
    clock: Clock,
    habit: Habit,
    belief: Arc<Mutex<Belief>>,
}

impl SmallEngine {
    /// An engine on this connection.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        ttls: Ttls,
        name: &LockName,
        habit: Habit,
    ) -> Self {
        Self { store, clock, ttls, name: name.clone(), habit }
    }
}

#[async_trait]
impl Contestant for SmallEngine {
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>> {
        assert!(ask.wait.is_none(), "it only waits in line");
        let session = loop {
            match Client::try_open(Arc::clone(&self.store), self.clock.clone(), self.ttls, false)
                .await
            {
                Ok(client) => break client,
                Err(_) => self.clock.sleep(self.ttls.wait_ttl / 4).await,
            }
        };
        let (claim, raw, _) = acquire(&session.mutex(&self.name), &self.clock).await;
        let token = FencingToken::new(0, raw)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a token out of range"))?;
        let belief = Belief { until: deadline(&claim), lost: false, given_up: false };
        let guard = SmallGuard {
            claim,
            token,
            clock: self.clock.clone(),
            habit: self.habit,
            belief: Arc::new(Mutex::new(belief)),
        };
        tokio::spawn(keep(
            guard.claim.clone(),
            Arc::clone(&guard.belief),
            self.clock.clone(),
            self.habit,
        ));
        Ok(Some(Box::new(guard)))
    }
}

/// Renews after each third of the ttl, until the lock is given up or lost.
async fn keep(claim: Contender, belief: Arc<Mutex<Belief>>, clock: Clock, habit: Habit) {
    loop {
        clock.sleep(claim.ttls().ttl / 3).await;
        if belief.lock().unwrap().is_over(&clock, habit) {
            return;
        }
        let answer = claim.renew().await;
        if habit == Habit::ReleasesOnALostReply
            && answer.as_ref().is_err_and(|e| e.effect() == Effect::Unknown)
        {
            return give_up(&claim, true, &clock).await;
        }
        let mut belief = belief.lock().unwrap();
        match answer {
            Ok(Renewal::Held { .. }) if !belief.is_over(&clock, habit) => {
                belief.until = deadline(&claim)
            }
            Ok(Renewal::Lost(_)) => belief.lost = true,
            Ok(_) | Err(_) => {}
        }
    }
}

impl Belief {
    fn is_over(&self, clock: &Clock, habit: Habit) -> bool {
        let late = habit != Habit::RenewsAfterTheDeadline && clock.now() >= self.until;
        self.lost || self.given_up || late
    }
}

#[async_trait]
impl Held for SmallGuard {
    fn token(&self) -> FencingToken {
        self.token
    }

    fn believed(&self) -> Option<Duration> {
        let belief = self.belief.lock().unwrap();
        (!belief.is_over(&self.clock, self.habit))
            .then(|| belief.until.saturating_since(self.clock.now()))
    }

    async fn release(self: Box<Self>) -> Result<()> {
        let over = self.believed().is_none();
        self.belief.lock().unwrap().given_up = true;
        let mut tries = 0;
        while let Err(error) =
            self.claim.client.store.withdraw(&self.claim.claim.key, Some(TOMBSTONE_MIN)).await
        {
            tries += 1;
            if tries == 4 {
                return Err(error);
            }
            self.clock.sleep(self.claim.ttls().wait_ttl / 4).await;
        }
        if over {
            return Err(Error::lost(self.claim.claim.key.name.clone(), LostReason::Expired));
        }
        Ok(())
    }

    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>) {
        (self, Err(Error::new(ErrorKind::Unsupported, "it has mutexes only")))
    }

    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)> {
        Err(Error::new(ErrorKind::Unsupported, "it has mutexes only"))
    }
}
