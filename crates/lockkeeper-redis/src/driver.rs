//! How a URL reaches the store.

use std::sync::Arc;
use std::time::Duration;

use super::{CAPABILITIES, RedisStore, doctor};
use crate::store::{Driver, DriverLayout, Examined, Examining, Opening, Store};
use crate::url::{StoreUrl, known};

/// The driver of `redis:` URLs, behind Sentinels and in a Cluster too.
pub static DRIVER: Driver =
    Driver::new("Redis", &known::REDIS, open).examining(examine).layouts(&[DriverLayout::new("native", &CAPABILITIES)]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move { Ok(Arc::new(RedisStore::from_url(&url)?.connect().await?) as Arc<dyn Store>) })
}

fn examine(url: StoreUrl, within: Duration) -> Examining {
    Box::pin(async move {
        let mut findings = Vec::new();
        let store = doctor::examine(&url, within, &mut findings).await;
        Examined::new(findings, store.map(|store| Arc::new(store) as Arc<dyn Store>))
    })
}
