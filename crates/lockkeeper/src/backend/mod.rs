//! The stores. Each room has the same files: `mod` is the [`Store`], `builder` opens it, `layout`
//! is what it keeps and the operations on it, `wait` is how its waiters wake up.

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(all(feature = "file", target_os = "linux"))]
pub mod file;
pub mod memory;
#[cfg(test)]
mod promises;
#[cfg(feature = "redis")]
pub mod redis;

use std::sync::Arc;
use std::time::Duration;

use crate::store::Finding;
use crate::store::Store;
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, Result};

/// Opens the store that a URL names.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    url.available().map_err(|error| error.at(&url.to_string()))?;
    match url.scheme {
        "memory" => {
            waivable(url, &[])?;
            Ok(Arc::new(memory::MemoryStore::new()))
        }
        #[cfg(all(feature = "file", target_os = "linux"))]
        "file" => Ok(Arc::new(file::FileStore::from_url(url)?.open().await?)),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Ok(Arc::new(etcd::EtcdStore::from_url(url)?.connect().await?)),
        #[cfg(feature = "redis")]
        scheme if scheme.starts_with("redis") => Ok(Arc::new(redis::RedisStore::from_url(url)?.connect().await?)),
        scheme => Err(Error::new(ErrorKind::Unsupported, format!("{scheme}: stores do not run on this system"))),
    }
}

/// Examines what a URL names: what is special about its store. The store, if it could be opened.
pub(crate) async fn examine(url: &StoreUrl, within: Duration, findings: &mut Vec<Finding>) -> Option<Arc<dyn Store>> {
    #[cfg(all(feature = "file", target_os = "linux"))]
    if url.scheme == "file" {
        return Some(Arc::new(file::doctor::examine(url, within, findings).await?));
    }
    #[cfg(feature = "etcd")]
    if url.scheme.starts_with("etcd") {
        return Some(Arc::new(etcd::doctor::examine(url, within, findings).await?));
    }
    #[cfg(feature = "redis")]
    if url.scheme.starts_with("redis") {
        return Some(Arc::new(redis::doctor::examine(url, within, findings).await?));
    }
    let opened = match Clock::boot().timeout(within, open(url)).await {
        Some(opened) => opened,
        None => Err(Error::new(ErrorKind::Unavailable, format!("{url} did not answer within {within:?}"))
            .with_remedy("check that the server runs and can be reached from here")),
    };
    opened.map_err(|error| findings.push(Finding::failed("open", &error))).ok()
}

/// Refuses what `unsafe=` names if the store has no such check.
fn waivable(url: &StoreUrl, checks: &[&str]) -> Result<()> {
    let Some(unknown) = url.common.unsafe_checks.iter().find(|check| !checks.contains(&check.as_str())) else {
        return Ok(());
    };
    let error = Error::invalid(format!("{url}: there is no check {unknown:?} that unsafe= could waive"));
    Err(match crate::url::nearest(unknown, checks.iter().copied()) {
        Some(near) => error.with_remedy(format!("unsafe={near}")),
        None if checks.is_empty() => error.with_remedy("the URL without unsafe="),
        None => error.with_remedy(format!("one of {}", checks.join(", "))),
    })
}
