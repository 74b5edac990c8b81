//! How a URL reaches the store.

use std::sync::Arc;

use lockkeeper_core::kit::examine;

use super::setup::URLS;
use super::{CAPABILITIES, RedisStore, doctor};
use crate::store::{Driver, DriverLayout, Opening, Store};
use crate::url::StoreUrl;

/// The driver of `redis:` URLs, behind Sentinels and in a Cluster too.
pub static DRIVER: Driver = Driver::new("Redis", &URLS, open)
    .examining(|url, within| {
        examine(url, within, |url, examination| Box::pin(doctor::examine(url, examination)))
    })
    .layouts(&[DriverLayout::new("native", &CAPABILITIES)]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(
        async move { Ok(Arc::new(RedisStore::from_url(&url)?.connect().await?) as Arc<dyn Store>) },
    )
}
