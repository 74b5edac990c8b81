//! Claims that do not belong into the line.

use super::Claiming;
use crate::Result;
use crate::layout::transaction::all;
use crate::layout::{Contender, Record, admissions};
use crate::store::admit::same_kind;
use crate::store::refusal;

/// Refuses a claim with this record behind claims of another kind, or of a later epoch.
pub(super) fn check(record: &Record, ahead: &[Contender]) -> Result<()> {
    let own = record.meta().epoch;
    for other in ahead {
        if !same_kind(other.capacity(), record.capacity) {
            return Err(refusal::other_kind(record.capacity));
        }
        let epoch = other.meta().epoch;
        if epoch > own {
            return Err(refusal::epoch(epoch, own));
        }
    }
    Ok(())
}

impl Claiming {
    /// Refuses a claim behind claims of another kind, or of a later epoch.
    pub(super) fn check(&self, ahead: &[Contender]) -> Result<()> {
        check(&self.record, ahead)
    }

    /// Refuses a claim in a full line with so many keys. Only if the line may be full, it is read
    /// to count the holders.
    pub(super) async fn check_length(&self, count: u32) -> Result<()> {
        // At least one of the other claims holds.
        if count.saturating_sub(1) <= self.claim.max_waiters {
            return Ok(());
        }
        self.check_max_waiters(&self.read(self.store.range(all(&self.line)).await?))
    }

    /// Refuses a claim behind too many waiters of this line.
    fn check_max_waiters(&self, line: &[Contender]) -> Result<()> {
        let most = self.claim.max_waiters;
        let own = line.iter().position(|contender| contender.key == self.key).unwrap_or(line.len());
        let held = admissions(line).take_while(|(_, admitted)| *admitted).count();
        match own >= held && u32::try_from(own - held).unwrap_or(u32::MAX) >= most {
            true => Err(refusal::queue_full(most)),
            false => Ok(()),
        }
    }
}
