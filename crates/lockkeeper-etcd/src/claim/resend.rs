//! Claims that are sent again, because the answer to the first request was lost.

use bytes::Bytes;

use super::transactions::known_or_retired;
use super::{Claiming, Outcome};
use crate::Result;
use crate::layout::transaction::{absent, get, only, put, transaction};
use crate::sessions::Purpose;
use crate::store::TOMBSTONE_MIN;
use crate::wire::messages::RangeRequest;

impl Claiming {
    /// Finds out whether the claim has arrived. If it has not, the tombstone makes sure that it
    /// never will.
    pub(super) async fn resend(&self) -> Result<Outcome> {
        self.end_turn();
        // Most of the time the claim is there, and a read costs etcd less than a write.
        let own = RangeRequest { key: self.key.clone(), ..RangeRequest::default() };
        if let Some(own) = only(Some(self.store.range(own).await?)) {
            return Ok(Outcome::Known(own));
        }
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let lasts = self.claim.ttl.max(TOMBSTONE_MIN);
        self.session.said_gone(self.tombstone.clone(), self.store.0.clock.now() + lasts);
        let tombstone = put(&self.tombstone, Bytes::new(), lease);
        let answer = self.txn(transaction(vec![absent(&self.key)], vec![tombstone], vec![get(&self.key)])).await?;
        match answer.succeeded {
            true => Ok(Outcome::Retired),
            false => Ok(known_or_retired(answer.responses)),
        }
    }
}
