//! Claims that end without a request of their caller, as leftovers or with the close of their
//! session. A minimum hold that is not over stays.

use bytes::Bytes;

use crate::layout::transaction::{changed, created, delete, get, only, put, ranges, transaction};
use crate::layout::{Contender, Keep, Missed};
use crate::sessions::Leftover;
use crate::wire::messages::{RequestOp, TxnResponse};
use crate::{EtcdStore, Result, fault};

/// How often a claim is let go because something else changes it meanwhile.
const TRIES: u32 = 16;
/// So many claims are read in one transaction: etcd takes 128 operations.
const AT_ONCE: usize = 100;

impl EtcdStore {
    /// Removes a leftover and its report. A client that has listed the claim since has removed the
    /// report.
    pub(crate) async fn remove_leftover(&self, leftover: &Leftover) -> Result<()> {
        let Missed { key, created: said, claim } = &leftover.missed;
        let mut when = vec![created(key, *said)];
        let own = match leftover.lease {
            Some(lease) => {
                self.read(claim).await?.map(Contender::read).filter(|own| own.lease == lease)
            }
            None => None,
        };
        let Some(own) = own else {
            return self.write(transaction(when, vec![delete(key)], Vec::new())).await;
        };
        when.push(changed(claim, own.changed));
        let request =
            |goes: RequestOp| transaction(when.clone(), vec![goes, delete(key)], Vec::new());
        match self.txn(request(let_go(&own))).await {
            // The minimum hold is over.
            Err(error) if error.is_no_lease() => self.write(request(delete(claim))).await,
            removed => removed.map(drop).map_err(fault::of),
        }
    }

    /// Leaves the claims of a detached session that is being closed on the timers of their minimum
    /// holds, if these are not over. The keys on `leases` end with the session. No minimum hold
    /// begins any more.
    pub(crate) async fn leave_on_timers(&self, leases: &[i64]) -> Result<()> {
        let keys = self.claims_on(leases).await?;
        for chunk in keys.chunks(AT_ONCE) {
            let found = self.read_together(chunk.iter().map(get).collect()).await?;
            for own in found.into_iter().filter_map(|range| only(Some(range))) {
                self.leave_on_timer(Contender::read(own)).await?;
            }
        }
        Ok(())
    }

    async fn leave_on_timer(&self, mut own: Contender) -> Result<()> {
        for _ in 0..TRIES {
            if own.is_over() || own.keep().is_none_or(|keep| keep.lease == own.lease) {
                return Ok(());
            }
            let when = vec![changed(&own.key, own.changed)];
            let request = transaction(when, vec![let_go(&own)], vec![get(&own.key)]);
            let found = match self.txn(request).await {
                Err(error) if error.is_no_lease() => return Ok(()),
                Ok(TxnResponse { succeeded: true, .. }) => return Ok(()),
                answer => only(ranges(answer.map_err(fault::of)?.responses).next()),
            };
            let Some(found) = found else { return Ok(()) };
            own = Contender::read(found);
        }
        Err(fault::always_changes())
    }

    /// Ends the claim with this key if a break has marked it.
    pub(crate) async fn end_if_marked(&self, key: Bytes) -> Result<()> {
        for _ in 0..TRIES {
            let own = self.read(&key).await?.map(Contender::read);
            let Some(own) = own.filter(Contender::is_broken) else { return Ok(()) };
            let when = vec![changed(&key, own.changed)];
            let answer = self.txn(transaction(when, vec![delete(&key)], Vec::new())).await;
            if answer.map_err(fault::of)?.succeeded {
                return Ok(());
            }
        }
        Err(fault::always_changes())
    }
}

/// Deletes the claim, or leaves it on the timer of its minimum hold.
fn let_go(own: &Contender) -> RequestOp {
    let kept = own.record.clone().zip(own.keep().copied()).filter(|_| !own.is_over());
    let Some((mut record, keep)) = kept else { return delete(&own.key) };
    record.keep = Some(Keep { released: true, ..keep });
    put(&own.key, record.written(), keep.lease)
}
