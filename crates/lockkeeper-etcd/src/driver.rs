//! How a URL reaches the store.

use std::sync::Arc;

use lockkeeper_core::kit::examine;

use crate::builder::URLS;
use crate::client::{CAPABILITIES, SHARED_CAPABILITIES};
use crate::store::{Driver, DriverLayout, Opening, Store};
use crate::url::StoreUrl;
use crate::{EtcdStore, doctor};

/// The driver of `etcd:` URLs.
pub static DRIVER: Driver = Driver::new("etcd", &URLS, open)
    .examining(|url, within| {
        examine(url, within, |url, examination| Box::pin(doctor::examine(url, examination)))
    })
    .layouts(&[
        DriverLayout::new("native", &CAPABILITIES),
        DriverLayout::new("concurrency", &SHARED_CAPABILITIES),
    ]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(
        async move { Ok(Arc::new(EtcdStore::from_url(&url)?.connect().await?) as Arc<dyn Store>) },
    )
}
