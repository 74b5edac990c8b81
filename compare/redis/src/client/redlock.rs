//! lockkeeper on the servers of a Redlock.

use anyhow::{Context, Result};
use compare_common::client::keeper::Mutexes;
use lockkeeper::{Keeper, RedlockStore};

/// The addresses in `redlock://HOST:PORT,…`.
pub(crate) fn addresses(url: &str) -> Result<impl Iterator<Item = &str>> {
    Ok(url.strip_prefix("redlock://").context("this kind needs redlock://")?.split(','))
}

/// The servers are new, and have forgotten nothing.
pub(crate) async fn connect(url: &str) -> Result<Mutexes> {
    let store = RedlockStore::new(addresses(url)?).assume_fresh();
    Ok(Mutexes(Keeper::builder(store).connect().await?))
}
