//! Several locks as one: acquired one after the other in a fixed order, so no two attempts wait for
//! each other, and all or nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::limits::TOGETHER_PAUSE;
use super::outcome::Outcome;
use super::{Engine, Granted};
use crate::duration::format_duration;
use crate::random::jittered;
use crate::store::Amend;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// Attempts that succeed together or not at all. They share one time-out.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    pub(crate) first: Attempt,
    pub(crate) also: Vec<Attempt>,
}

/// The grants of the attempts, in the same order.
pub(crate) type AllGranted = (Granted, Vec<Granted>);

impl Attempts {
    /// The whole attempt. It must be polled to its end. If a later lock fails, the earlier locks
    /// are released.
    pub(crate) async fn run(self) -> Result<AllGranted> {
        let min_hold = self.first.request.min_hold;
        if min_hold.is_zero() {
            return self.acquire_all().await;
        }
        let (engine, control) = (Arc::clone(&self.first.engine), Arc::clone(&self.first.control));
        loop {
            let all = self.clone().acquire_all().await?;
            match beside(&engine, &all, self.keep(&all, min_hold)).await {
                Ok(()) => return Ok(all),
                // Another try would wait for the claim that the store keeps on the request of this
                // attempt.
                Err(error) if error.effect() == Effect::Unknown => return Err(error),
                Err(error) => {
                    control.set_keeping(false);
                    if error.kind() != ErrorKind::Lost {
                        return Err(error);
                    }
                }
            }
            // The drop comes before the pause: this future may not be polled again after it.
            drop(all);
            self.first.pause(jittered(TOGETHER_PAUSE)).await;
        }
    }

    /// Makes the store keep each lock for `min_hold` from now on. The attempt asks for this when it
    /// holds all locks and its caller still wants them, so a lock that is given back earlier is
    /// free at once.
    ///
    /// # Errors
    /// An error of unknown effect if the store may keep one of the locks. `Lost` without an effect
    /// if a lock was lost before that.
    async fn keep(&self, all: &AllGranted, min_hold: Duration) -> Result<()> {
        let (engine, first) = (&self.first.engine, &self.first);
        let wanted = || if first.is_stopped() { Err(first.gave_up()) } else { Ok(()) };
        first.control.set_keeping(true);
        let mut kept = Vec::with_capacity(1 + self.also.len());
        for granted in holds(all) {
            let hold = granted.hold();
            let asked = engine.amend_while(hold, &Amend::MinHold(min_hold), wanted).await;
            if asked.as_ref().err().is_none_or(|error| error.effect() == Effect::Unknown) {
                kept.push(&hold.key.name);
            }
            if let Err(error) = asked {
                return Err(if kept.is_empty() {
                    error
                } else {
                    kept_from_all(error, &kept, min_hold)
                });
            }
        }
        Ok(())
    }

    async fn acquire_all(mut self) -> Result<AllGranted> {
        if self.also.is_empty() {
            return Ok((self.first.run().await?, Vec::new()));
        }
        // The time of `max_hold` begins when all locks are held.
        let max_hold = self.first.request.max_hold.take();
        self.also.iter_mut().for_each(|attempt| attempt.request.max_hold = None);
        loop {
            if let Some(all) = self.climb().await? {
                if let Some(max_hold) = max_hold {
                    holds(&all).for_each(|granted| granted.end_after(max_hold));
                }
                return Ok(all);
            }
            // A part was lost during the wait for others. The later parts in the order have to be
            // released too.
            self.first.pause(jittered(TOGETHER_PAUSE)).await;
        }
    }

    /// Acquires one lock after the other; `None` if one was lost meanwhile.
    async fn climb(&self) -> Result<Option<AllGranted>> {
        let first = self.acquire(0, &self.first).await?;
        let mut all = (first, Vec::with_capacity(self.also.len()));
        for (i, attempt) in self.also.iter().enumerate() {
            let next = self.acquire_beside(&all, i + 1, attempt).await?;
            all.1.push(next);
            if holds(&all).any(|granted| granted.hold().is_dead()) {
                return Ok(None);
            }
        }
        let begun = !self.first.request.fixed || self.begin_lease(&all).await?;
        Ok(begun.then_some(all))
    }

    /// Acquires one more lock.
    async fn acquire_beside(
        &self,
        held: &AllGranted,
        part: usize,
        attempt: &Attempt,
    ) -> Result<Granted> {
        beside(&attempt.engine, held, self.acquire(part, attempt)).await
    }

    async fn acquire(&self, part: usize, attempt: &Attempt) -> Result<Granted> {
        attempt.control.set_part(part);
        let granted = attempt.run().await?;
        if attempt.request.fixed {
            // The lease is renewed during the wait for the other locks.
            granted.hold().go_on_renewing();
            let hold = granted.hold();
            hold.session.renew_by(hold, attempt.engine.now() + hold.ttl() / 3);
        }
        Ok(granted)
    }

    /// Begins the fixed leases when all locks are held; returns whether no lock was lost before.
    async fn begin_lease(&self, all: &AllGranted) -> Result<bool> {
        for granted in holds(all) {
            granted.hold().stop_renewing();
        }
        for granted in holds(all) {
            match self.first.confirm(granted.hold()).await {
                Outcome::Retired => return Ok(false),
                Outcome::Failed(error) => {
                    return Err(self.first.engine.describe(error, &granted.hold().key.name));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Does `work` while these locks are held. They are offered meanwhile, with a new sign of life at
/// each poll: without a poll they are released.
async fn beside<T>(engine: &Engine, held: &AllGranted, work: impl Future<Output = T>) -> T {
    let sign = held.0.hold().session.wait_ttl / 4;
    let mut work = pin!(work);
    loop {
        offer(held);
        if let Some(done) = engine.clock.timeout(sign, work.as_mut()).await {
            new(held).for_each(|granted| granted.hold().collect());
            return done;
        }
    }
}

/// The error of an attempt whose locks the store may keep. It never says that another client has
/// them.
pub(crate) fn kept_from_all(error: Error, names: &[&LockName], min_hold: Duration) -> Error {
    let error = match error.kind() {
        ErrorKind::Timeout => {
            Error::new(ErrorKind::Unavailable, "the wait was over before the store had answered")
        }
        _ => error,
    };
    let error = names.iter().fold(error, |error, name| error.about((*name).clone()));
    let names: Vec<_> = names.iter().map(|name| format!("{:?}", name.as_str())).collect();
    let kept = format!(
        "the store may keep {} from everybody for {}",
        names.join(" and "),
        format_duration(min_hold)
    );
    error
        .adding(&kept)
        .with_unknown_effect()
        .with_remedy("again when that time is over, or break the lock")
}

/// Offers the granted locks, which have no guards yet.
pub(crate) fn offer(all: &AllGranted) {
    new(all).for_each(|granted| {
        let Granted { engine, .. } = granted;
        granted.hold().offer(engine.now());
        engine.deadlines.expect(engine.end_of(granted.hold()));
    });
}

/// The locks that are new: the owner has a guard of each other lock.
fn new(all: &AllGranted) -> impl Iterator<Item = &Granted> {
    holds(all).filter(|granted| !granted.is_again())
}

fn holds(all: &AllGranted) -> impl Iterator<Item = &Granted> {
    std::iter::once(&all.0).chain(&all.1)
}
