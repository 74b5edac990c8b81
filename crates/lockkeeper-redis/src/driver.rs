//! How a URL reaches the store.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::kit::examine;
use lockkeeper_redis_foreign::{self as foreign, LAYOUTS, Layout};

use super::setup::{OWN, URLS};
use super::{CAPABILITIES, RedisStore, doctor};
use crate::Result;
use crate::store::{Driver, DriverLayout, Examining, Opening, Store};
use crate::url::StoreUrl;

/// The driver of `redis:` URLs, behind Sentinels and in a Cluster too. It opens the locks of other
/// libraries too: `layout=`.
pub static DRIVER: Driver = Driver::new("Redis", &URLS, open).examining(examined).layouts(&ALL);

static ALL: [DriverLayout; LAYOUTS.len() + 1] = {
    let mut all = [DriverLayout::new(OWN[0], &CAPABILITIES); LAYOUTS.len() + 1];
    let mut at = 0;
    while at < LAYOUTS.len() {
        all[at + 1] = LAYOUTS[at];
        at += 1;
    }
    all
};

fn open(url: StoreUrl) -> Opening {
    Box::pin(async move {
        match foreign_layout(&url)? {
            Some(layout) => foreign::open(&url, &URLS, layout).await,
            None => Ok(Arc::new(RedisStore::from_url(&url)?.connect().await?) as Arc<dyn Store>),
        }
    })
}

fn examined(url: StoreUrl, within: Duration) -> Examining {
    match foreign_layout(&url) {
        Ok(Some(layout)) => foreign::examine(url, within, &URLS, layout),
        // The examination reports an unknown layout.
        Ok(None) | Err(_) => {
            examine(url, within, |url, examination| Box::pin(doctor::examine(url, examination)))
        }
    }
}

fn foreign_layout(url: &StoreUrl) -> Result<Option<Layout>> {
    foreign::layout_of(url, &OWN)
}
