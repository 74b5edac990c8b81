//! The fault suite: what clients, networks and servers do to a store, each case written once, and
//! run on every store.
//!
//! [`fault_suite!`](crate::fault_suite) makes the tests of a store in its program `faults`. A case
//! needs a [`LiveStore`], or a [`Server`](crate::Server) as well; the list of the cases says which.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a failing test panics"
)]

mod claimant;
pub mod clients;
pub mod clocks;
pub mod cuts;
pub mod handles;
pub mod identity;
pub mod kills;
pub mod lists;
pub mod outages;
pub mod reconnects;
pub mod registers;
pub mod sharing;
pub mod silence;
mod suite;
pub mod worker;

use std::time::Duration;

use lockkeeper::{Guard, Keeper, Result};
use lockkeeper_testing::worker::Worker;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

pub use self::suite::{check_chosen, check_left_out};
use crate::contract::ONE_PERMIT;
use crate::locks::{patiently, waiter_until};
use crate::server::LiveStore;

/// Clients of a server that is away give a request up after a second, and ask again.
const HASTY: &str = "timeout=1s";

/// Runs a case. A process that obeys orders does nothing between them, not even renewals.
pub fn run(case: impl Future<Output = ()>) {
    Keeper::register(&ONE_PERMIT).unwrap();
    let mut runtime = match Worker::here() {
        Some(_) => Builder::new_current_thread(),
        None => Builder::new_multi_thread(),
    };
    runtime.worker_threads(4).enable_all().build().unwrap().block_on(case);
}

/// A client of the store at this URL. It connects again while the store is unavailable.
async fn keeper(url: &str, ttl: Duration) -> Keeper {
    patiently(async || Keeper::from_url(url).unwrap().ttl(ttl).connect().await).await
}

/// Waits for the lock, and asks again while the store is unavailable.
async fn lock(keeper: &Keeper, name: &str) -> Guard {
    patiently(async || keeper.mutex(name).unwrap().lock().await).await
}

/// A client that waits for a held lock, as the store shows. Until then it asks again while the
/// store is unavailable.
async fn waiter<S: LiveStore>(store: &S, keeper: &Keeper, name: &str) -> JoinHandle<Result<Guard>> {
    waiter_until(keeper, name, store.until_waiting(keeper, name, 1)).await
}

/// A ttl that a test can wait for.
fn short_ttl<S: LiveStore>() -> Duration {
    S::LEAST_TTL.max(Duration::from_millis(1500))
}
