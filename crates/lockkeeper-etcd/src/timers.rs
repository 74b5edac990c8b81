//! The lease on which a claim is whose minimum hold a timer times: of that timer and the lease of its session the one that
//! ends last. It is decided here, for whatever puts the claim somewhere.

use std::sync::Arc;
use std::time::Duration;

use super::layout::Keep;
use super::layout::transaction::{changed, move_to, transaction};
use super::sessions::{self, Purpose, Session};
use super::status::Found;
use super::wire::messages::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, TxnResponse};
use super::{EtcdStore, fault};
use crate::Result;
use crate::store::ClaimKey;
use crate::time::{Instant, believed, lasts_at_most};

/// How much more may be left of a lease than etcd says.
const CUT: Duration = Duration::from_secs(1);

/// What times a minimum hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    /// As the record of the claim shows it.
    pub(super) keep: Keep,
    /// Until when its lease lives at least, however fast etcd's clock goes.
    pub(super) valid_until: Instant,
    /// When the minimum hold is over, however slowly etcd's clock goes.
    pub(super) is_over: Instant,
}

impl Timer {
    /// One that was begun by a request which was sent and answered then.
    pub(super) fn new(keep: Keep, hold: Duration, sent: Instant, answered: Instant) -> Self {
        Self { keep, valid_until: sent + believed(hold), is_over: answered + lasts_at_most(hold) }
    }

    /// One of which etcd said then how much is left.
    pub(super) fn found(keep: Keep, left: Duration, sent: Instant, answered: Instant) -> Self {
        Self { valid_until: sent + believed(left), ..Self::new(keep, left + CUT, sent, answered) }
    }
}

impl EtcdStore {
    /// The lease that ends last: the timer, or that of the session's holders on which the claim is or is to be. What was
    /// proven of the session before this was asked the claim outlives on either.
    pub(super) async fn last_to_end(&self, session: &Arc<Session>, on: i64, timer: &Timer) -> Result<i64> {
        let hold = match session.purpose(on) {
            Some(Purpose::Hold) => on,
            _ => self.lease(session, Purpose::Hold).await?,
        };
        let (renewed, ttl) = session.renewal_of(hold);
        if timer.valid_until >= renewed + ttl {
            return Ok(timer.keep.lease);
        }
        // Where our clock cannot tell, etcd's can, which times both.
        let left = self.left_of(timer.keep.lease).await?;
        if left.is_some_and(|left| left >= ttl) {
            return Ok(timer.keep.lease);
        }
        let ends = self.0.clock.now() + lasts_at_most(left.map_or(Duration::ZERO, |left| left + CUT));
        if renewed + believed(ttl) < ends && !self.refresh(session, hold).await? {
            return Err(sessions::lost());
        }
        Ok(hold)
    }

    /// The timer that this says, as etcd times it.
    pub(super) async fn timer_of(&self, keep: Keep) -> Result<Timer> {
        let (sent, left) = (self.0.clock.now(), self.left_of(keep.lease).await?);
        Ok(Timer::found(keep, left.unwrap_or_default(), sent, self.0.clock.now()))
    }

    /// How long a lease lives at least; `None` for one that is not there.
    pub(super) async fn left_of(&self, lease: i64) -> Result<Option<Duration>> {
        Ok(u64::try_from(self.asked_of(lease).await?.ttl).ok().map(Duration::from_secs))
    }

    pub(super) async fn asked_of(&self, lease: i64) -> Result<LeaseTimeToLiveResponse> {
        let request = LeaseTimeToLiveRequest { id: lease, keys: false };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseTimeToLive", request).await;
        asked.map_err(|error| fault::of(error).without_effect())
    }

    /// Puts a claim that was found on its timer on the lease that ends last: where it is then; `None` if it was changed
    /// meanwhile, by a release for example.
    pub(super) async fn is_on_the_last(
        &self,
        session: &Arc<Session>,
        key: &ClaimKey,
        found: &Found,
    ) -> Result<Option<i64>> {
        let Some(keep) = found.record.as_ref().and_then(|record| record.keep) else { return Ok(None) };
        let timer = match session.timer(key.id).filter(|timer| timer.keep.lease == keep.lease) {
            Some(timer) => timer,
            // The answer to the request that began this timer was lost.
            None => {
                let timer = self.timer_of(keep).await?;
                session.times(key.id, timer);
                timer
            }
        };
        let on = self.last_to_end(session, found.lease, &timer).await?;
        if on == found.lease {
            return Ok(Some(on));
        }
        let at = session.slot_of(&self.0.lines, key).at;
        let request = transaction(vec![changed(&at, found.changed)], vec![move_to(&at, on)], Vec::new());
        let asked = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        let answer: TxnResponse = asked.map_err(|error| match error.is_no_lease() {
            true => sessions::lost(),
            false => fault::of(error),
        })?;
        if answer.succeeded {
            session.holds(key.id, on, found.created);
        }
        Ok(answer.succeeded.then_some(on))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever two clocks make of each other that differ by less than the drift allowance.
        #[test]
        fn a_timer_outlives_what_it_is_trusted_for_however_fast_etcds_clock_goes(
            ttl in 1_u64..1_000_000,
            drift in -0.005_f64..0.005,
            ours in -0.005_f64..0.005,
            late in 0_u64..10,
        ) {
            let (sent, ttl) = (Instant::from_nanos(1_000_000_000), Duration::from_secs(ttl));
            let answered = sent + Duration::from_secs(late);
            let keep = Keep { lease: 7, until_ms: 0, term: 1, released: false };
            let timer = Timer::new(keep, ttl, sent, answered);
            // What our clock shows when so much time of etcd's has passed.
            let seems = ttl.mul_f64((1.0 + ours) / (1.0 + drift));
            prop_assert!(timer.valid_until <= sent + seems, "{timer:?}, {seems:?}");
            prop_assert!(timer.is_over >= answered + seems, "{timer:?}, {seems:?}");
        }
    }
}
