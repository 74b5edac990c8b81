//! The leases of tombstones. A tombstone outlives the session of its claim, so it is on a lease
//! that belongs to no session. No client renews such a lease, and none has to remove the tombstone.

use std::sync::Mutex;
use std::time::Duration;

use super::seconds;
use crate::EtcdStore;
use crate::gates::SharingGate;
use crate::store::TOMBSTONE_MIN;
use crate::time::{Instant, believed, lasts_at_most};
use crate::wire::WireError;
use lockkeeper_core::sync::lock;

/// How long clients remember that a session was closed.
pub(crate) const REMEMBERED: Duration = TOMBSTONE_MIN;
/// How much longer a lease lasts than its first tombstone, so that later tombstones fit on it.
const SPARE: Duration = Duration::from_secs(60);
/// With many more keys on one lease, each put takes longer.
const PER_LEASE: usize = 500;

/// The lease of this client on which the next tombstone is.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    last: Mutex<Option<TombstoneLease>>,
    /// Of many calls at the same time, one makes the lease, and all use it.
    making: SharingGate<WireError>,
}

#[derive(Debug)]
struct TombstoneLease {
    id: i64,
    /// Until when the lease lives at least, however fast etcd's clock goes.
    valid_until: Instant,
    used: usize,
}

impl Tombstones {
    fn take(&self, until: Instant) -> Option<i64> {
        let mut lease = lock(&self.last);
        let lease =
            lease.as_mut().filter(|lease| lease.valid_until >= until && lease.used < PER_LEASE)?;
        lease.used += 1;
        Some(lease.id)
    }

    fn replace(&self, id: i64, valid_until: Instant) {
        let lease = TombstoneLease { id, valid_until, used: 1 };
        lock(&self.last).replace(lease);
    }
}

impl EtcdStore {
    /// A lease that lasts for so long from now on: a `fresh` one if the last one was not there.
    pub(crate) async fn tombstone_lease(
        &self,
        lasts: Duration,
        fresh: bool,
    ) -> Result<i64, WireError> {
        let sent = self.0.clock.now();
        let lasts = lasts_at_most(lasts);
        if let Some(lease) = self.0.tombstones.take(sent + lasts).filter(|_| !fresh) {
            return Ok(lease);
        }
        // Other calls wait for this lease, whether this caller polls or not.
        let store = self.clone();
        let making = self.0.runtime.carry_on(async move {
            let making = store.make_tombstone_lease(sent, lasts, fresh);
            store.0.tombstones.making.pass(store.0.calls.outage(), making).await
        });
        let has_ended = || WireError::broken("the runtime of the store has ended");
        making.await.unwrap_or_else(|| Err(has_ended()))
    }

    async fn make_tombstone_lease(
        &self,
        sent: Instant,
        lasts: Duration,
        fresh: bool,
    ) -> Result<i64, WireError> {
        if let Some(lease) = self.0.tombstones.take(sent + lasts).filter(|_| !fresh) {
            return Ok(lease);
        }
        // This client believes that the lease lasts a little less than it does.
        let ttl = lasts_at_most(lasts) + SPARE;
        let lease = self.try_grant(seconds(ttl)).await?.id;
        self.0.tombstones.replace(lease, sent + believed(ttl));
        Ok(lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    #[test]
    fn a_lease_takes_tombstones_for_as_long_as_it_outlasts_them_and_has_room() {
        let (leases, now) = (Tombstones::default(), Clock::boot().now());
        assert_eq!(leases.take(now), None);
        leases.replace(7, now + SPARE);
        assert_eq!(leases.take(now + SPARE + Duration::from_nanos(1)), None);
        for _ in 1..PER_LEASE {
            assert_eq!(leases.take(now + SPARE), Some(7));
        }
        assert_eq!(leases.take(now), None);
    }
}
