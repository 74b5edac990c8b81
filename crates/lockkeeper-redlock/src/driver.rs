//! How a URL reaches the store.

use std::sync::Arc;

use lockkeeper_core::Result;
use lockkeeper_core::kit::examine;
use lockkeeper_core::store::{Driver, DriverLayout, Finding, Opening, Store};
use lockkeeper_core::url::StoreUrl;

use crate::setup::URLS;
use crate::{CAPABILITIES, RedlockStore, doctor};

/// The driver of `redlock:` URLs.
pub static DRIVER: Driver = Driver::new("Redlock", &URLS, open)
    .examining(|url, within| {
        examine(url, within, |url, examination| Box::pin(doctor::examine(url, examination)))
    })
    .initializing(|url| Box::pin(async move { initialize(&url).await }))
    .layouts(&[DriverLayout::new("", &CAPABILITIES)]);

/// Lets the servers count at once. Each has to answer.
async fn initialize(url: &StoreUrl) -> Result<Finding> {
    let setup = RedlockStore::from_url(url)?.assume_fresh().setup;
    let (store, done) = RedlockStore::open(setup).await?;
    let all = store.0.nodes.len();
    if done.len() < all {
        let problem = format!("{} of {all} servers count now: {}", done.len(), done.join(", "));
        return Ok(Finding::warn("init", problem, "again, when all servers can be reached"));
    }
    Ok(Finding::ok("init", format!("all {all} servers count now")))
}

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move {
        Ok(Arc::new(RedlockStore::from_url(&url)?.connect().await?) as Arc<dyn Store>)
    })
}
