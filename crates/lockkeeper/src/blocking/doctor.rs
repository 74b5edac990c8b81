//! Examining a store, without async: see [`lockkeeper::doctor`](crate::doctor).

use std::time::Duration;

use super::park::wait;
use crate::doctor::{self, Finding};
use crate::runtime::{Runtime, inside};
use crate::url::StoreUrl;

/// Examines the store at `url`, without creating it if it does not exist: see
/// [`examine`](crate::doctor::examine). Each step may take `within`.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::blocking::doctor::examine;
/// use lockkeeper::doctor::Level;
///
/// # fn f() -> lockkeeper::Result<()> {
/// for found in examine(&"memory:".parse()?, Duration::from_secs(5)) {
///     assert_ne!(found.level, Level::Fail, "{}: {}", found.check, found.finding);
/// }
/// # Ok(())
/// # }
/// # f().unwrap();
/// ```
pub fn examine(url: &StoreUrl, within: Duration) -> Vec<Finding> {
    let examined =
        Runtime::own().and_then(|runtime| wait(inside(&runtime, doctor::examine(url, within))));
    examined.unwrap_or_else(|error| vec![Finding::failed("thread", &error)])
}
