//! The examination of a store: present problems, coming problems, and the remedies.
//!
//! ```
//! use std::time::Duration;
//! use lockkeeper::doctor::{Level, examine};
//!
//! # async fn f() -> lockkeeper::Result<()> {
//! for found in examine(&"memory:".parse()?, Duration::from_secs(5)).await {
//!     assert_ne!(found.level, Level::Fail, "{}: {}", found.check, found.finding);
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
//! ```

mod through;

use std::time::Duration;

use crate::Result;
use crate::drivers;
use crate::store::Examined;
pub use crate::store::{Finding, Level};
use crate::url::StoreUrl;

/// Each step gets no more time than this if the user lacks a right: another doctor without it may
/// have left a lock that it could not release.
const WITHOUT_A_RIGHT: Duration = Duration::from_secs(1);

/// Examines the store at `url`, and does not create a missing store. Each step may take `within`.
///
/// The examination acquires and releases one lock several times: `lockkeeper-doctor` behind the
/// prefix of the URL, with `-permits` or `-tokens` behind it where counters stay in the store. A
/// store that cannot be opened is a finding and not an error.
///
/// # Cancel safety
/// The future may be dropped. A lock that the examination holds then is released in the background.
pub async fn examine(url: &StoreUrl, within: Duration) -> Vec<Finding> {
    let Examined { mut findings, store, .. } = drivers::examine(url, within).await;
    let is_denied =
        findings.iter().any(|found| found.check == "rights" && found.level == Level::Fail);
    let within = if is_denied { within.min(WITHOUT_A_RIGHT) } else { within };
    if let Some(store) = store {
        findings.extend(through::examine(store, url, within).await);
    }
    findings
}

/// Initializes the store at `url`, where no lock is held: the servers of a Redlock count at
/// once, and not only when they have run for as long as a lock may last. A lock that is held there
/// may be given away again.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) for a store that needs no initialization. The
/// reason why the store cannot be initialized.
///
/// # Cancel safety
/// The future may be dropped.
pub async fn initialize(url: &StoreUrl) -> Result<Finding> {
    drivers::initialize(url).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn examined(url: &str) -> Vec<Finding> {
        examine(&url.parse().unwrap(), Duration::from_secs(20)).await
    }

    #[tokio::test]
    async fn every_stores_round_trip_locks_and_capabilities_are_examined() {
        let findings = examined("memory:").await;
        let checks: Vec<_> = findings.iter().map(|found| (found.check, found.level)).collect();
        assert_eq!(
            checks,
            [
                ("id", Level::Ok),
                ("round trip", Level::Ok),
                ("locks", Level::Ok),
                ("capabilities", Level::Ok)
            ]
        );
    }

    #[tokio::test]
    async fn a_store_that_needs_no_initialization_says_so() {
        let error = initialize(&"memory:".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        assert_eq!(error.message(), "Memory needs no initialization");
    }

    #[tokio::test]
    async fn a_store_that_is_not_built_is_a_finding_without_its_password() {
        let findings = examined("mysql://me:hunter2@h").await;
        assert_eq!((findings.len(), findings[0].level), (1, Level::Fail));
        assert!(findings[0].finding.contains("mysql://me:***@h: "), "{findings:?}");
        assert!(findings[0].remedy.is_some());
    }
}
