//! The etcd store, and the check of a guard in a transaction of the user: see [`EtcdStore`].

pub use crate::backend::etcd::*;
use crate::{Guard, Result};

/// Returns the comparison that is true for as long as this guard's lock is held, as etcd sees it.
/// Put it into every transaction that works under the lock. If a holder has lost the lock, etcd
/// itself refuses its transaction, however late the transaction arrives.
///
/// ```no_run
/// # async fn f(keeper: lockkeeper::Keeper) -> lockkeeper::Result<()> {
/// let guard = keeper.mutex("stock/42")?.lock().await?;
/// let holds = lockkeeper::etcd::compare(&guard)?;
/// // With the etcd-client crate:
/// // Txn::new().when([Compare::create_revision(holds.key, CompareOp::Equal, holds.create_revision)])
/// //     .and_then([TxnOp::put("stock/42", "6", None)])
/// # drop(holds);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) when the lock is not kept in etcd.
pub fn compare(guard: &Guard) -> Result<EtcdCompare> {
    EtcdCompare::of(&guard.held_claim())
}
