//! The stores of this build, and those that a program has registered: the one list of them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::backend;
use crate::store::{Driver, Examined, Finding, Store};
use crate::url::{StoreUrl, UrlSyntax, examples, known};
use crate::{Error, ErrorKind, Result};

/// One of lockkeeper's own stores.
struct Own {
    urls: &'static UrlSyntax,
    /// The cargo feature that it needs, if it needs one, and whether that is on.
    feature: Option<(&'static str, bool)>,
    /// `None` in a build without it.
    driver: Option<&'static Driver>,
}

/// The driver of a store, in a build that has the store.
macro_rules! if_built {
    ($condition:meta, $driver:path) => {{
        #[cfg($condition)]
        {
            Some(&$driver)
        }
        #[cfg(not($condition))]
        {
            None
        }
    }};
}

static OWN: [Own; 4] = [
    Own { urls: &known::MEMORY, feature: None, driver: Some(&backend::memory::DRIVER) },
    Own {
        urls: &known::FILE,
        feature: Some(("file", cfg!(feature = "file"))),
        driver: if_built!(all(feature = "file", target_os = "linux"), backend::file::DRIVER),
    },
    Own {
        urls: &known::REDIS,
        feature: Some(("redis", cfg!(feature = "redis"))),
        driver: if_built!(feature = "redis", backend::redis::DRIVER),
    },
    Own {
        urls: &known::ETCD,
        feature: Some(("etcd", cfg!(feature = "etcd"))),
        driver: if_built!(feature = "etcd", backend::etcd::DRIVER),
    },
];

static REGISTERED: RwLock<Vec<&'static Driver>> = RwLock::new(Vec::new());

/// The drivers of the stores that a URL can name: first those of this build, then those that the program has
/// [registered](crate::Keeper::register).
///
/// ```
/// let names: Vec<_> = lockkeeper::drivers().iter().map(|driver| driver.name).collect();
/// assert_eq!(names[0], "Memory");
/// ```
pub fn drivers() -> Vec<&'static Driver> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    OWN.iter().filter_map(|own| own.driver).chain(registered.iter().copied()).collect()
}

/// See [`Keeper::register`](crate::Keeper::register).
pub(crate) fn register(driver: &'static Driver) -> Result<()> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|known| std::ptr::eq(*known, driver)) {
        return Ok(());
    }
    known::register(driver.urls).map_err(|taken| {
        Error::invalid(format!("{} cannot have the scheme {taken}:, which another store has", driver.name))
            .with_remedy("another scheme")
    })?;
    registered.push(driver);
    Ok(())
}

/// Opens the store that a URL names.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    driver(url).map_err(|error| error.at(&url.to_string()))?.open(url).await
}

/// Examines what a URL names: what is special about its store.
pub(crate) async fn examine(url: &StoreUrl, within: Duration) -> Examined {
    match driver(url) {
        Ok(driver) => driver.examine(url, within).await,
        Err(error) => Examined::new(vec![Finding::failed("open", &error.at(&url.to_string()))], None),
    }
}

impl StoreUrl {
    /// Checks whether this build has the store.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported). The message names the cargo feature that the store needs, or
    /// states that this version of lockkeeper does not have the store.
    pub fn available(&self) -> Result<()> {
        driver(self).map(drop)
    }
}

/// The driver for a URL.
fn driver(url: &StoreUrl) -> Result<&'static Driver> {
    let scheme = url.scheme;
    if let Some(driver) = drivers().into_iter().find(|driver| driver.has_scheme(scheme)) {
        return Ok(driver);
    }
    let own = OWN.iter().find(|own| own.urls.names().any(|name| name == scheme));
    let (message, remedy) = match own.map(|own| own.feature) {
        Some(Some((feature, false))) => (
            format!("{scheme}: needs the cargo feature `{feature}`"),
            "a build of lockkeeper with that feature".to_owned(),
        ),
        Some(_) => {
            return Err(Error::new(ErrorKind::Unsupported, format!("{scheme}: stores do not run on this system")));
        }
        None => (format!("this version of lockkeeper does not have the store of {scheme}:// yet"), examples()),
    };
    Err(Error::new(ErrorKind::Unsupported, message).with_remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(url: &str) -> Result<()> {
        url.parse::<StoreUrl>().unwrap().available()
    }

    #[test]
    fn later_stores_and_stores_whose_feature_is_off_say_so() {
        assert!(available("memory:").is_ok());
        assert_eq!(available("file:x").is_ok(), cfg!(feature = "file"));
        for scheme in ["redlock", "zks", "mysql", "postgresql", "https"] {
            let error = available(&format!("{scheme}://h")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected = format!("this version of lockkeeper does not have the store of {scheme}:// yet");
            assert!(error.to_string().starts_with(&expected));
        }
    }

    #[test]
    fn every_driver_of_this_build_has_the_urls_that_are_known_of_its_store() {
        for own in &OWN {
            assert!(own.driver.is_none_or(|driver| std::ptr::eq(driver.urls, own.urls)));
            assert!(own.driver.is_none_or(|driver| !driver.layouts.is_empty()));
        }
    }
}
