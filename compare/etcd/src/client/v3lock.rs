//! The lock service of etcd itself, through the crate `etcd-client`. The server runs Go's
//! algorithm.

use anyhow::{Result, ensure};
use compare_common::client::tasks::{Client, Lock};
use etcd_client::{LockClient, LockOptions};
use tokio::sync::Mutex;

use crate::lease::Lease;

pub(crate) struct V3lock {
    client: etcd_client::Client,
    /// A lease for each lock: two locks of one name on one lease would be the same.
    leases: Mutex<Vec<Lease>>,
}

impl V3lock {
    pub(crate) async fn connect(addresses: &str) -> Result<Self> {
        let addresses: Vec<_> = addresses.split(',').collect();
        Ok(Self {
            client: etcd_client::Client::connect(addresses, None).await?,
            leases: Mutex::default(),
        })
    }
}

impl Client for V3lock {
    type Lock = Named;

    async fn lock(&self, name: &str, nth: usize) -> Result<Named> {
        let mut leases = self.leases.lock().await;
        while leases.len() <= nth {
            leases.push(Lease::grant(&self.client).await?);
        }
        Ok(Named {
            locks: self.client.lock_client(),
            lease: leases[nth].clone(),
            name: name.to_owned(),
        })
    }
}

pub(crate) struct Named {
    locks: LockClient,
    lease: Lease,
    name: String,
}

impl Lock for Named {
    type Guard = Vec<u8>;

    async fn acquire(&self) -> Result<Vec<u8>> {
        let options = LockOptions::new().with_lease(self.lease.id);
        Ok(self.locks.clone().lock(self.name.as_str(), Some(options)).await?.key().to_vec())
    }

    async fn release(&self, key: Vec<u8>, awaited: bool) -> Result<()> {
        ensure!(awaited, "this client awaits its releases");
        self.locks.clone().unlock(key).await?;
        Ok(())
    }

    fn is_lost(&self, _key: &Vec<u8>) -> bool {
        self.lease.is_lost()
    }
}
