//! The stores. Each room has the same files: `mod` is the [`Store`](crate::store::Store), `builder` opens it, `layout`
//! is what it keeps and the operations on it, `wait` is how its waiters wake up.

pub mod memory;

use std::sync::Arc;

pub use memory::MemoryStore;

use crate::store::Store;
use crate::url::StoreUrl;
use crate::{Error, ErrorKind, Result};

/// Opens the store that a URL names.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    url.available()?;
    match url.scheme {
        "memory" => Ok(Arc::new(MemoryStore::new())),
        other => Err(Error::new(ErrorKind::Internal, format!("{other}: is said to be available, and is not"))),
    }
}
