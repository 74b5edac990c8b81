//! A store that fails on demand, for the tests of programs that *use* locks. And the contract suite, for authors of a
//! *store*.
//!
//! # For programs that use locks
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
//! # For authors of a store
//! The contract suite has one test for each duty of a store. Write a [`Harness`] for the store, and let
//! [`suite!`](crate::suite) make a test of every case:
//!
//! ```
//! lockkeeper::suite! {
//!     mod memory_store;
//!     harness = lockkeeper::testing::MemoryHarness;
//!     lacks = [SessionExpiry];
//!     left_out = 4
//! }
//! ```
//!
//! Every store runs every case. Name under `lacks` what the store has not of all that cases [need](Need), and count the
//! cases that need it under `left_out`. A test compares both with the capabilities, so that no case is left out unseen.
//!
//! [`Crowded`] runs the same suite with data of others around every lock. [`Harness::crowd`] says what to put there.
//!
//! The suite is tested too: [`wrong`] has stores with one flaw each, and for each the case that has to find the flaw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "a failing test panics")]

mod case;
pub mod cases;
mod client;
mod contender;
mod crowd;
mod harness;
pub mod history;
mod keeper_suite;
mod keepers;
pub mod register;
mod storm;
mod storm_suite;
mod suite;
mod test_store;
mod through;
pub mod worker;
pub mod wrong;

#[cfg(feature = "redis")]
#[doc(hidden)]
pub use crate::backend::redis::{
    Agreement as RedisAgreement, against_memory as redis_against_memory,
    against_memory_with_faults as redis_against_memory_with_faults,
    with_a_clock_that_goes_back as redis_with_a_clock_that_goes_back,
};
/// The methods of a store, for the tests of programs that use locks.
pub use crate::layer::Operation as Op;
pub use crate::seeded::Seeded;
pub use case::{Case, run};
#[doc(hidden)]
pub use case::{check_left_out, run_case};
pub use client::Client;
pub use contender::Contender;
pub use crowd::Crowded;
pub use harness::{AnyHarness, Crash, Harness, InAStorm, MemoryHarness, Need, Time, Ttls, unique_prefix};
pub use keepers::{EventLog, LostUpdateCounter, TestClient};
pub use storm::storm;
pub use test_store::{RenewalsPaused, TestStore};
pub use through::{AtRest, Through, Wrap};
