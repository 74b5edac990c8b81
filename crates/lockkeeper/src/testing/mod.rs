//! A store that fails on demand, for the tests of programs that *use* locks.
//!
//! A [`TestStore`] under your own code loses locks, fails, and is slow when your test calls for it:
//!
//! ```
//! # use lockkeeper::{Keeper, LostReason, testing::TestStore};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lockkeeper::Result<()> {
//! # let store = TestStore::new();
//! # let keeper = Keeper::builder(store.clone()).connect().await?;
//! let guard = keeper.mutex("report")?.lock().await?;
//! store.expire("report");
//! assert_eq!(guard.lost().await, LostReason::Expired);
//! # Ok(())
//! # }
//! ```
//!
//! The contract suite for authors of a *store* is the crate `lockkeeper-testing`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a failing test panics"
)]

mod test_store;

/// The methods of a store, for the tests of programs that use locks.
pub use crate::layer::Operation as Op;
pub use test_store::{RenewalsPaused, TestStore};
