//! The lease of the command, as the supervisor sees it: the command ends with its lease.

use std::future::pending;
use std::time::Duration;

use lockkeeper::LostReason;

/// The lease of the command.
pub(crate) trait Lease {
    /// How long the lock is valid without another renewal; zero when the lock is lost.
    fn remaining(&self) -> Duration;
    /// Why the lock is lost, if it is.
    fn loss(&self) -> Option<LostReason>;
    /// Completes when the lock is lost. Cancel safe.
    async fn lost(&self) -> LostReason;
    /// Completes when one of the locks is lost, and the store may have granted it to another claim.
    /// Cancel safe.
    async fn given_away(&self) {
        pending().await
    }
    /// The reason of the loss if no further answer comes from the store.
    fn silent_loss(&self) -> LostReason {
        LostReason::Expired
    }
    /// The lock that is lost, or has the least time left.
    fn weakest(&self) -> &str;
}
