//! The contract suite of lockkeeper, for authors of a *store*; a recorder of what clients do with
//! locks, and the checker of the recording.
//!
//! Programs that *use* locks test their code with `lockkeeper::testing::TestStore`, and do not need
//! this crate.
//!
//! # For authors of a store
//! The contract suite has one test for each duty of a store. Write a [`Harness`] for the store, and
//! let [`suite!`](crate::suite) make a test of every case:
//!
//! ```
//! lockkeeper_testing::suite! {
//!     mod memory_store;
//!     harness = lockkeeper_testing::MemoryHarness;
//!     lacks = [SessionExpiry];
//!     left_out = 12
//! }
//! ```
//!
//! Every store runs every case. Name under `lacks` everything that cases [need](Need) and the store
//! does not have, and count the cases that need it under `left_out`. A test compares both with the
//! capabilities, so the suite leaves out no case silently.
//!
//! [`Crowded`] runs the same suite with data of others around every lock. [`Harness::crowd`] says
//! what to put there.
//!
//! The suite has tests of its own: [`wrong`] has stores with one defect each, and names the case
//! that has to find the defect.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a failing test panics"
)]

mod case;
pub mod cases;
mod client;
mod contender;
mod crowd;
mod harness;
pub mod history;
mod keeper_suite;
mod keepers;
mod moved_time;
pub mod register;
mod storm;
mod storm_suite;
mod suite;
mod through;
pub mod worker;
pub mod wrong;

pub use case::{Case, run};
#[doc(hidden)]
pub use case::{check_left_out, run_case};
pub use client::Client;
pub use contender::Contender;
pub use crowd::Crowded;
pub use harness::{
    AnyHarness, Crash, Harness, InAStorm, MemoryHarness, Need, Time, Ttls, unique_prefix,
};
pub use keepers::{EventLog, LostUpdateCounter, TestClient};
pub use lockkeeper_core::kit::seeded::Seeded;
pub use moved_time::ServerClock;
pub use storm::storm;
pub use through::{AtRest, Through, Wrap};
