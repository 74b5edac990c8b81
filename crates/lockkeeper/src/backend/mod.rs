//! The stores. Each room has the same files: `mod` is the [`Store`], `builder` opens it, `layout`
//! is what it keeps and the operations on it, `wait` is how its waiters wake up.

#[cfg(all(feature = "file", target_os = "linux"))]
pub mod file;
pub mod memory;

use std::sync::Arc;

use crate::store::Store;
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, Result};

/// Opens the store that a URL names.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    url.available()?;
    match url.scheme {
        "memory" => {
            waivable(url, &[])?;
            Ok(Arc::new(memory::MemoryStore::new()))
        }
        #[cfg(all(feature = "file", target_os = "linux"))]
        "file" => Ok(Arc::new(file::FileStore::from_url(url)?.open().await?)),
        scheme => Err(Error::new(ErrorKind::Unsupported, format!("{scheme}: stores do not run on this system"))),
    }
}

/// Refuses what `unsafe=` names if the store has no such check.
fn waivable(url: &StoreUrl, checks: &[&str]) -> Result<()> {
    let Some(unknown) = url.common.unsafe_checks.iter().find(|check| !checks.contains(&check.as_str())) else {
        return Ok(());
    };
    let error = Error::invalid(format!("{url}: there is no check {unknown:?} that unsafe= could waive"));
    Err(match crate::url::nearest(unknown, checks.iter().copied()) {
        Some(near) => error.with_remedy(format!("unsafe={near}")),
        None => error,
    })
}
