//! How a URL reaches the store.

use std::sync::Arc;

use lockkeeper_core::kit::examine;

use super::builder::URLS;
use super::{CAPABILITIES, FileStore, doctor};
use crate::store::{Driver, DriverLayout, Opening, Store};
use crate::url::StoreUrl;

/// The driver of `file:` URLs.
pub static DRIVER: Driver = Driver::new("File", &URLS, open)
    .examining(|url, within| {
        examine(url, within, |url, examination| Box::pin(doctor::examine(url, examination)))
    })
    .layouts(&[DriverLayout::new("", &CAPABILITIES)]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(
        async move { Ok(Arc::new(FileStore::from_url(&url)?.open().await?) as Arc<dyn Store>) },
    )
}
