//! How a URL reaches the store.

use std::sync::Arc;

use super::{CAPABILITIES, MemoryStore};
use crate::store::{Driver, DriverLayout, Opening, Store};
use crate::url::{Scheme, StoreUrl, UrlForm, UrlSyntax};

static URLS: UrlSyntax = UrlSyntax::new(&[Scheme::new("memory", UrlForm::Alone, "memory:")]);

/// The driver of `memory:` URLs. Each URL opens a new store.
pub static DRIVER: Driver =
    Driver::new("Memory", &URLS, open).layouts(&[DriverLayout::new("", &CAPABILITIES)]);

fn open(_: StoreUrl) -> Opening {
    Box::pin(async { Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>) })
}
