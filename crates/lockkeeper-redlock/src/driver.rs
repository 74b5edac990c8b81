//! How a URL reaches the store.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Result;
use lockkeeper_core::duration::format_duration;
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

/// Lets the servers count at once, or as soon as no lock of before can be held. Each has to answer.
async fn initialize(url: &StoreUrl) -> Result<Finding> {
    let setup = RedlockStore::from_url(url)?.assume_fresh().setup;
    let (store, done) = RedlockStore::open(setup).await?;
    let (all, names) = (store.0.nodes.len(), |of: Vec<&str>| of.join(", "));
    if done.len() < all {
        let done: Vec<_> = done.iter().map(|(node, _)| node.as_str()).collect();
        let problem = format!("{} of {all} servers have the list: {}", done.len(), names(done));
        return Ok(Finding::warn("init", problem, "again, when all servers can be reached"));
    }
    let later: Vec<_> = done.iter().filter(|(_, later)| !later.is_zero()).collect();
    let Some(last) = later.iter().map(|(_, later)| *later).max() else {
        return Ok(Finding::ok("init", format!("all {all} servers count now")));
    };
    let nodes = names(later.iter().map(|(node, _)| node.as_str()).collect());
    let last = format_duration(Duration::from_secs(last.as_secs() + 1));
    Ok(Finding::ok("init", format!("all {all} servers have the list; {nodes}: counts in {last}")))
}

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move {
        Ok(Arc::new(RedlockStore::from_url(&url)?.connect().await?) as Arc<dyn Store>)
    })
}
