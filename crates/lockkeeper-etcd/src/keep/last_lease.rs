//! The lease of a claim that has a minimum hold: its timer or the lease of its session, whichever
//! ends last. Every request that puts such a claim on a lease takes the decision from here.

use std::sync::Arc;
use std::time::Duration;

use super::timer::{CUT, Timer};
use crate::layout::Keep;
use crate::layout::transaction::{changed, move_to, transaction};
use crate::look::Found;
use crate::sessions::{self, Purpose, Session};
use crate::store::ClaimKey;
use crate::time::{believed, lasts_at_most};
use crate::{EtcdStore, Result, fault};

impl EtcdStore {
    /// The lease that ends last: the timer, or the hold lease that the claim is on or would be on.
    /// The claim outlives on this lease what was proven of its session before this call.
    pub(crate) async fn last_to_end(
        &self,
        session: &Arc<Session>,
        on: i64,
        timer: &Timer,
    ) -> Result<i64> {
        let hold = match session.leases.purpose(on) {
            Some(Purpose::Hold) => on,
            _ => self.lease(session, Purpose::Hold).await?,
        };
        let (renewed, ttl) = session.leases.renewal_of(hold);
        // Another client of a detached session may have renewed it until now, which is not known
        // here.
        let is_known = !session.is_shared();
        let latest = if is_known { renewed } else { self.0.clock.now() };
        if timer.valid_until >= latest + ttl {
            return Ok(timer.keep.lease);
        }
        // The clock of this client cannot decide it. etcd's clock can: it times both leases.
        let left = self.left_of(timer.keep.lease).await?;
        if left.is_some_and(|left| left >= ttl) {
            return Ok(timer.keep.lease);
        }
        let ends =
            self.0.clock.now() + lasts_at_most(left.map_or(Duration::ZERO, |left| left + CUT));
        let is_long_enough = is_known && renewed + believed(ttl) >= ends;
        if !is_long_enough && !self.refresh(session, hold).await? {
            return Err(sessions::lost());
        }
        Ok(hold)
    }

    /// The timer that a record names, with the time that etcd says is left.
    pub(crate) async fn timer_of(&self, keep: Keep) -> Result<Timer> {
        let (sent, left) = (self.0.clock.now(), self.left_of(keep.lease).await?);
        Ok(Timer::found(keep, left.unwrap_or_default(), sent, self.0.clock.now()))
    }

    /// Puts a claim that was found on its timer on the lease that ends last, and returns that
    /// lease; `None` if the claim was changed meanwhile, by a release for example.
    pub(crate) async fn is_on_the_last(
        &self,
        session: &Arc<Session>,
        key: &ClaimKey,
        found: &Found,
    ) -> Result<Option<i64>> {
        let Some(keep) = found.record.as_ref().and_then(|record| record.keep) else {
            return Ok(None);
        };
        let timer =
            match session.claims.timer(key.id).filter(|timer| timer.keep.lease == keep.lease) {
                Some(timer) => timer,
                // The answer to the request that began this timer was lost.
                None => {
                    let timer = self.timer_of(keep).await?;
                    session.claims.times(key.id, timer);
                    timer
                }
            };
        let on = self.last_to_end(session, found.lease, &timer).await?;
        if on == found.lease {
            return Ok(Some(on));
        }
        let at = session.claims.slot_of(&self.0.lines, key).at;
        let mut when = vec![changed(&at, found.changed)];
        if session.is_shared() {
            // On its timer the claim outlives a close.
            when.extend(self.is_open(session));
        }
        let request = transaction(when, vec![move_to(&at, on)], Vec::new());
        let answer = self.txn(request).await.map_err(fault::of_a_put)?;
        if answer.succeeded {
            session.claims.holds(key.id, on, found.created);
        }
        Ok(answer.succeeded.then_some(on))
    }
}
