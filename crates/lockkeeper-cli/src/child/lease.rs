//! What the command's life depends on, as those see it who supervise the command.

use std::future::pending;
use std::time::Duration;

use lockkeeper::LostReason;

/// What the command's life depends on.
pub(crate) trait Lease {
    /// How long the lock is believed in without another renewal; zero when it is lost.
    fn remaining(&self) -> Duration;
    /// Why it is lost, if it is.
    fn loss(&self) -> Option<LostReason>;
    /// Completes when it is lost. Cancel safe.
    async fn lost(&self) -> LostReason;
    /// Completes when one of its locks is lost, and the store may have given that away. Cancel safe.
    async fn given_away(&self) {
        pending().await
    }
    /// What the loss is if nothing more is heard of it.
    fn silent_loss(&self) -> LostReason {
        LostReason::Expired
    }
    /// The lock that is lost, or has the least time left.
    fn weakest(&self) -> &str;
}
