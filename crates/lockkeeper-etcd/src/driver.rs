//! How a URL reaches the store.

use std::sync::Arc;
use std::time::Duration;

use super::client::{CAPABILITIES, SHARED_CAPABILITIES};
use super::{EtcdStore, doctor};
use crate::store::{Driver, DriverLayout, Examined, Examining, Opening, Store};
use crate::url::{StoreUrl, known};

/// The driver of `etcd:` URLs.
pub static DRIVER: Driver = Driver::new("etcd", &known::ETCD, open)
    .examining(examine)
    .layouts(&[DriverLayout::new("native", &CAPABILITIES), DriverLayout::new("concurrency", &SHARED_CAPABILITIES)]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move { Ok(Arc::new(EtcdStore::from_url(&url)?.connect().await?) as Arc<dyn Store>) })
}

fn examine(url: StoreUrl, within: Duration) -> Examining {
    Box::pin(async move {
        let mut findings = Vec::new();
        let store = doctor::examine(&url, within, &mut findings).await;
        Examined::new(findings, store.map(|store| Arc::new(store) as Arc<dyn Store>))
    })
}
