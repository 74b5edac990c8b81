//! The only list of the stores of this build, and of the stores that a program has registered.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::backend;
use crate::store::{Driver, Examined, Finding, Store};
use crate::url::{StoreUrl, known};
use crate::{Error, Result};

/// The stores of this build. Every build knows the URLs of all stores: see `url/known.rs` of the
/// core.
static OWN: &[&Driver] = &[
    &backend::memory::DRIVER,
    #[cfg(all(feature = "file", target_os = "linux"))]
    &backend::file::DRIVER,
    #[cfg(feature = "redis")]
    &backend::redis::DRIVER,
    #[cfg(feature = "etcd")]
    &backend::etcd::DRIVER,
];

static REGISTERED: RwLock<Vec<&'static Driver>> = RwLock::new(Vec::new());

/// The drivers of the stores that a URL can name: first the drivers of this build, then the drivers
/// that the program has [registered](crate::Keeper::register).
///
/// ```
/// let names: Vec<_> = lockkeeper::drivers().iter().map(|driver| driver.name).collect();
/// assert_eq!(names[0], "Memory");
/// ```
pub fn drivers() -> Vec<&'static Driver> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    OWN.iter().chain(registered.iter()).copied().collect()
}

/// See [`Keeper::register`](crate::Keeper::register).
pub(crate) fn register(driver: &'static Driver) -> Result<()> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|known| std::ptr::eq(*known, driver)) {
        return Ok(());
    }
    known::register(driver.urls).map_err(|taken| {
        Error::invalid(format!(
            "{} cannot have the scheme {taken}:, which another store has",
            driver.name
        ))
        .with_remedy("another scheme")
    })?;
    registered.push(driver);
    Ok(())
}

/// Opens the store that a URL names.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    driver(url).map_err(|error| error.at(&url.to_string()))?.open(url).await
}

/// Examines the store that a URL names, with the checks of its driver.
pub(crate) async fn examine(url: &StoreUrl, within: Duration) -> Examined {
    match driver(url) {
        Ok(driver) => driver.examine(url, within).await,
        Err(error) => {
            Examined::new(vec![Finding::failed("open", &error.at(&url.to_string()))], None)
        }
    }
}

fn driver(url: &StoreUrl) -> Result<&'static Driver> {
    let has_it = |driver: &&Driver| driver.has_scheme(url.scheme);
    drivers().into_iter().find(has_it).ok_or_else(|| url.lacking())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn available(url: &str) -> Result<&'static Driver> {
        driver(&url.parse().unwrap())
    }

    #[test]
    fn later_stores_and_stores_whose_feature_is_off_say_so() {
        assert!(available("memory:").is_ok());
        assert_eq!(available("file:x").is_ok(), cfg!(feature = "file"));
        for scheme in ["redlock", "zks", "mysql", "postgresql", "https"] {
            let error = available(&format!("{scheme}://h")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected =
                format!("this version of lockkeeper does not have the store of {scheme}:// yet");
            assert!(error.to_string().starts_with(&expected));
        }
    }

    #[test]
    fn every_driver_of_this_build_has_the_known_urls_of_its_store() {
        for driver in OWN {
            assert!(
                known::OWN.iter().any(|own| std::ptr::eq(driver.urls, own.urls)),
                "{}",
                driver.name
            );
            assert!(!driver.layouts.is_empty(), "{}", driver.name);
        }
    }
}
