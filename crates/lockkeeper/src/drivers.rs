//! The only list of the stores of this build, and of the stores that a program has registered.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::backend;
use crate::store::{Driver, Examined, Finding, Store};
use crate::url::{self, StoreUrl};
use crate::{Error, Result};

/// The stores of this build. Every build reads the URLs of all stores: see `url/scheme.rs` of the
/// core.
static OWN: &[&Driver] = &[
    &backend::memory::DRIVER,
    #[cfg(all(feature = "file", target_os = "linux"))]
    &backend::file::DRIVER,
    #[cfg(feature = "redis")]
    &backend::redis::DRIVER,
    #[cfg(feature = "redlock")]
    &backend::redlock::DRIVER,
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
    url::register(driver.urls).map_err(|taken| {
        Error::invalid(format!(
            "{} cannot have the scheme {taken}:, which another store has",
            driver.name
        ))
        .with_remedy("another scheme")
    })?;
    registered.push(driver);
    Ok(())
}

/// Refuses a parameter that the store of the URL does not take. A store that this build lacks is
/// refused when it is opened.
pub(crate) fn check_params(url: &StoreUrl) -> Result<()> {
    driver(url).map_or(Ok(()), |driver| driver.urls.check_params(url))
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

/// Initializes the store that a URL names.
pub(crate) async fn initialize(url: &StoreUrl) -> Result<Finding> {
    driver(url).map_err(|error| error.at(&url.to_string()))?.initialize(url).await
}

fn driver(url: &StoreUrl) -> Result<&'static Driver> {
    let has_it = |driver: &&Driver| driver.has_scheme(url.scheme);
    drivers().into_iter().find(has_it).ok_or_else(|| url.lacking())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Keeper};

    fn available(url: &str) -> Result<&'static Driver> {
        driver(&url.parse().unwrap())
    }

    #[test]
    fn later_stores_and_stores_whose_feature_is_off_say_so() {
        assert!(available("memory:").is_ok());
        assert_eq!(available("file:x").is_ok(), cfg!(feature = "file"));
        for scheme in ["zk", "zks", "mysql", "postgresql", "https"] {
            let error = available(&format!("{scheme}://h")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected =
                format!("this version of lockkeeper does not have the store of {scheme}:// yet");
            assert!(error.to_string().starts_with(&expected));
        }
    }

    #[test]
    fn a_parameter_that_the_store_does_not_take_is_refused_before_it_is_opened() {
        for (url, own, remedy) in [
            ("memory:?tll=5s", "tll", "ttl="),
            ("file:x?colour=red", "colour", "one of prefix, epoch, ttl, max-waiters, unsafe"),
            ("redis+sentinel://h/m?sentinel-usr=x", "sentinel-usr", "sentinel-user="),
            (
                "redis://h?sentinel-user=x",
                "sentinel-user",
                "one of prefix, epoch, ttl, max-waiters, unsafe, layout, adopt-ttl, watchdog, \
                 min-replicas, timeout, resp, ca, cert, key, server-name",
            ),
            ("etcds://h?servername=x", "servername", "server-name="),
        ] {
            let url: StoreUrl = url.parse().unwrap();
            let refused = Keeper::from_url(&url).map(drop);
            if driver(&url).is_err() {
                assert_eq!(refused, Ok(()), "{url}");
                continue;
            }
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let message = format!("{own:?} is not a parameter of {}: URLs", url.scheme);
            assert_eq!(error.message(), message);
            assert_eq!(error.remedy(), Some(remedy));
        }
    }

    #[test]
    fn a_build_without_a_store_reads_the_same_schemes_as_its_driver() {
        for driver in OWN {
            assert!(url::is_own(driver.urls), "{}", driver.name);
            assert!(!driver.layouts.is_empty(), "{}", driver.name);
        }
    }
}
