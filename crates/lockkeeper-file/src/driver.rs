//! How a URL reaches the store.

use std::sync::Arc;
use std::time::Duration;

use super::{CAPABILITIES, FileStore, doctor};
use crate::store::{Driver, DriverLayout, Examined, Examining, Opening, Store};
use crate::url::{StoreUrl, known};

/// The driver of `file:` URLs.
pub static DRIVER: Driver =
    Driver::new("File", &known::FILE, open).examining(examine).layouts(&[DriverLayout::new("", &CAPABILITIES)]);

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move { Ok(Arc::new(FileStore::from_url(&url)?.open().await?) as Arc<dyn Store>) })
}

fn examine(url: StoreUrl, within: Duration) -> Examining {
    Box::pin(async move {
        let mut findings = Vec::new();
        let store = doctor::examine(&url, within, &mut findings).await;
        Examined::new(findings, store.map(|store| Arc::new(store) as Arc<dyn Store>))
    })
}
