//! Claims that are sent again, because the answer to the first request was lost.

use bytes::Bytes;

use super::{Claiming, Earlier, Outcome};
use crate::layout::transaction::{absent, put, transaction};
use crate::store::TOMBSTONE_MIN;
use crate::wire::messages::{RangeRequest, TxnResponse};
use crate::{ErrorKind, Result, fault};

impl Claiming {
    /// Finds out whether the claim has arrived. If it has not, the tombstone makes sure that it
    /// never will.
    pub(super) async fn resend(&self) -> Result<Outcome> {
        self.end_turn();
        // Most of the time the claim is there, and a read costs etcd less than a write.
        if let Some(own) = self.read_own().await? {
            return Ok(Outcome::Known(own));
        }
        let (lasts, mut fresh) = (self.claim.ttl.max(TOMBSTONE_MIN), false);
        loop {
            let lease = self.store.tombstone_lease(lasts, fresh).await;
            let lease = lease.map_err(|error| fault::of(error).without_effect())?;
            let tombstone = put(&self.tombstone, Bytes::new(), lease);
            let request = transaction(vec![absent(&self.key)], vec![tombstone], self.own_reads());
            match self.txn(request).await {
                // The lease of tombstones has ended before its time.
                Err(error) if error.kind() == ErrorKind::SessionLost && !fresh => fresh = true,
                Ok(TxnResponse { succeeded: true, .. }) => return Ok(Outcome::Retired),
                answer => return Ok(self.known_or_retired(answer?.responses)),
            }
        }
    }
    /// The claim that an earlier request has put.
    async fn read_own(&self) -> Result<Option<Box<Earlier>>> {
        if self.report.is_some() {
            return Ok(
                self.found(&mut self.store.read_together(self.own_reads()).await?.into_iter())
            );
        }
        let own = RangeRequest { key: self.key.clone(), ..RangeRequest::default() };
        Ok(self.found(&mut [self.store.range(own).await?].into_iter()))
    }
}
