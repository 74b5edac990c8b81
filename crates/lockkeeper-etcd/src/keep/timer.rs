//! The timer of a minimum hold: a lease that no client renews.

use std::time::Duration;

use crate::layout::Keep;
use crate::time::{Instant, believed, lasts_at_most};

/// etcd cuts the rest of a lease to whole seconds: so much more may be left than it says.
pub(crate) const CUT: Duration = Duration::from_secs(1);

/// The timer of one minimum hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    /// The minimum hold, as the record of the claim states it.
    pub(crate) keep: Keep,
    /// Until when the lease lives at least, however fast etcd's clock goes.
    pub(crate) valid_until: Instant,
    /// When the minimum hold is over, however slowly etcd's clock goes.
    pub(crate) is_over: Instant,
}

impl Timer {
    /// A timer that a request has begun, which was sent and answered at these moments.
    pub(crate) fn new(keep: Keep, hold: Duration, sent: Instant, answered: Instant) -> Self {
        Self { keep, valid_until: sent + believed(hold), is_over: answered + lasts_at_most(hold) }
    }

    /// A timer with so much left, as etcd has answered a request that was sent and answered at
    /// these moments.
    pub(crate) fn found(keep: Keep, left: Duration, sent: Instant, answered: Instant) -> Self {
        Self { valid_until: sent + believed(left), ..Self::new(keep, left + CUT, sent, answered) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever two clocks make of each other that differ by less than the drift allowance.
        #[test]
        fn a_timer_outlives_its_trusted_time_at_any_rate_of_etcds_clock(
            ttl in 1_u64..1_000_000,
            drift in -0.005_f64..0.005,
            ours in -0.005_f64..0.005,
            late in 0_u64..10,
        ) {
            let (sent, ttl) = (Instant::from_nanos(1_000_000_000), Duration::from_secs(ttl));
            let answered = sent + Duration::from_secs(late);
            let keep = Keep { lease: 7, until_ms: 0, term: 1, released: false };
            let timer = Timer::new(keep, ttl, sent, answered);
            // How much time this clock shows when `ttl` has passed on etcd's clock.
            let seems = ttl.mul_f64((1.0 + ours) / (1.0 + drift));
            prop_assert!(timer.valid_until <= sent + seems, "{timer:?}, {seems:?}");
            prop_assert!(timer.is_over >= answered + seems, "{timer:?}, {seems:?}");
        }
    }
}
