//! Several locks as one: acquired one after the other in a fixed order, so that no two attempts wait for each other,
//! and all or nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, Outcome};
use super::{Engine, Granted};
use crate::random::jittered;
use crate::store::Amend;
use crate::{ErrorKind, Result};

/// Between the loss of a part and the next beginning.
const PAUSE: Duration = Duration::from_millis(50);

/// Attempts that are to succeed together. They share one patience.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    pub(crate) first: Attempt,
    pub(crate) also: Vec<Attempt>,
}

/// What they have become, in the same order.
pub(crate) type AllGranted = (Granted, Vec<Granted>);

impl Together {
    /// All of it. Must be polled to its end; what was acquired is given back when a later one fails.
    pub(crate) async fn run(self) -> Result<AllGranted> {
        let (engine, min_hold) = (Arc::clone(&self.first.engine), self.first.request.min_hold);
        if min_hold.is_zero() {
            return self.acquire_all().await;
        }
        loop {
            let all = self.clone().acquire_all().await?;
            if beside(&engine, &all, keep(&engine, &all, min_hold)).await? {
                return Ok(all);
            }
            self.first.pause(jittered(PAUSE)).await;
        }
    }

    async fn acquire_all(mut self) -> Result<AllGranted> {
        if self.also.is_empty() {
            return Ok((self.first.run().await?, Vec::new()));
        }
        // Its time begins when all are held, not with each.
        let max_hold = self.first.request.max_hold.take();
        self.also.iter_mut().for_each(|attempt| attempt.request.max_hold = None);
        loop {
            if let Some(all) = self.climb().await? {
                if let Some(max_hold) = max_hold {
                    holds(&all).for_each(|granted| granted.end_after(max_hold));
                }
                return Ok(all);
            }
            // A part was lost while others were waited for. What comes after it in the order has to go too.
            self.first.pause(jittered(PAUSE)).await;
        }
    }

    /// One after the other; `None` when one was lost meanwhile.
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

    /// Acquires one more.
    async fn acquire_beside(&self, held: &AllGranted, part: usize, attempt: &Attempt) -> Result<Granted> {
        beside(&attempt.engine, held, self.acquire(part, attempt)).await
    }

    async fn acquire(&self, part: usize, attempt: &Attempt) -> Result<Granted> {
        attempt.patience.turn_to(part);
        let granted = attempt.run().await?;
        if attempt.request.fixed {
            // Kept while the others are waited for.
            granted.hold().go_on_renewing();
            attempt.engine.plan(granted.hold(), attempt.engine.now(), granted.hold().session.ttl / 3);
        }
        Ok(granted)
    }

    /// The fixed lease begins when all are held; whether none was lost before it did.
    async fn begin_lease(&self, all: &AllGranted) -> Result<bool> {
        for granted in holds(all) {
            granted.hold().stop_renewing();
        }
        for granted in holds(all) {
            match self.first.confirm(granted.hold()).await {
                Outcome::Spent => return Ok(false),
                Outcome::Failed(error) => return Err(self.first.engine.describe(error, &granted.hold().key.name)),
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Does something while these are held. They are offered meanwhile, with a new sign of life whenever this is polled: if it is
/// polled no more they are given back.
async fn beside<T>(engine: &Engine, held: &AllGranted, work: impl Future<Output = T>) -> T {
    let sign = held.0.hold().session.wait_ttl / 4;
    let mut work = pin!(work);
    loop {
        offer(held);
        if let Some(done) = engine.clock.timeout(sign, work.as_mut()).await {
            holds(held).for_each(|granted| granted.hold().collect());
            return done;
        }
    }
}

/// Has the store keep each of them for so long from now on; whether none was lost before. It is asked when all are held
/// and are about to be handed out: what is given back before that is free at once.
async fn keep(engine: &Arc<Engine>, all: &AllGranted, min_hold: Duration) -> Result<bool> {
    for granted in holds(all) {
        match engine.amend(granted.hold(), &Amend::MinHold(min_hold)).await {
            Err(error) if error.kind() == ErrorKind::Lost => return Ok(false),
            kept => kept?,
        }
    }
    Ok(true)
}

/// They are granted, and nobody has made guards of them yet.
pub(crate) fn offer(all: &AllGranted) {
    // What its owner held before has a guard.
    let new = holds(all).filter(|granted| !granted.is_again());
    new.for_each(|granted| {
        let Granted { engine, .. } = granted;
        granted.hold().offer(engine.now());
        engine.deadlines.expect(engine.end_of(granted.hold()));
    });
}

fn holds(all: &AllGranted) -> impl Iterator<Item = &Granted> {
    std::iter::once(&all.0).chain(&all.1)
}
