//! The ceiling: a transaction that puts a missing key, and a transaction that deletes the unchanged
//! key.

use anyhow::{Context, Result, ensure};
use compare_common::client::tasks::{Client, Lock};
use etcd_client::{Compare, CompareOp, KvClient, PutOptions, Txn, TxnOp};

use crate::lease::Lease;

pub(crate) struct Raw {
    kv: KvClient,
    lease: Lease,
}

impl Raw {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let client = etcd_client::Client::connect([address], None).await?;
        Ok(Self { kv: client.kv_client(), lease: Lease::grant(&client).await? })
    }
}

impl Client for Raw {
    type Lock = Key;

    async fn lock(&self, name: &str, _nth: usize) -> Result<Key> {
        let free = Compare::create_revision(name, CompareOp::Equal, 0);
        let put = TxnOp::put(name, "", Some(PutOptions::new().with_lease(self.lease.id)));
        let claim = Txn::new().when([free]).and_then([put]);
        Ok(Key { kv: self.kv.clone(), lease: self.lease.clone(), name: name.to_owned(), claim })
    }
}

pub(crate) struct Key {
    kv: KvClient,
    lease: Lease,
    name: String,
    claim: Txn,
}

impl Lock for Key {
    type Guard = i64;

    async fn acquire(&self) -> Result<i64> {
        let answer = self.kv.clone().txn(self.claim.clone()).await?;
        ensure!(answer.succeeded(), "somebody else has {}", self.name);
        Ok(answer.header().context("an answer without a revision")?.revision())
    }

    async fn release(&self, created: i64, awaited: bool) -> Result<()> {
        ensure!(awaited, "this client awaits its releases");
        let mine = Compare::create_revision(self.name.as_str(), CompareOp::Equal, created);
        let release = Txn::new().when([mine]).and_then([TxnOp::delete(self.name.as_str(), None)]);
        ensure!(
            self.kv.clone().txn(release).await?.succeeded(),
            "{} was lost before its release",
            self.name
        );
        Ok(())
    }

    fn is_lost(&self, _created: &i64) -> bool {
        self.lease.is_lost()
    }
}
