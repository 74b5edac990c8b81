//! lockkeeper with a session for each task that wants the same lock, as its peers need sessions.
//! Within one session lockkeeper has a queue of its own, and etcd sees only its first task. All
//! sessions share one connection.

use anyhow::Result;
use compare_common::client::tasks::Client;
use lockkeeper::{EtcdStore, Keeper, Mutex};
use tokio::sync::Mutex as Gate;

pub(crate) struct Sessions {
    store: EtcdStore,
    keepers: Gate<Vec<Keeper>>,
}

impl Sessions {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let store = EtcdStore::from_url(&url.parse()?)?.connect().await?;
        Ok(Self { store, keepers: Gate::default() })
    }
}

impl Client for Sessions {
    type Lock = Mutex;

    async fn lock(&self, name: &str, nth: usize) -> Result<Mutex> {
        let mut keepers = self.keepers.lock().await;
        while keepers.len() <= nth {
            keepers.push(Keeper::builder(self.store.clone()).connect().await?);
        }
        Ok(keepers[nth].mutex(name)?)
    }
}
