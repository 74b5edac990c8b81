//! A lease that is renewed for as long as this process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper};

/// The ttl in seconds, as for the other clients here.
const TTL: i64 = 30;
const BETWEEN: Duration = Duration::from_secs(10);

/// A lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    is_lost: Arc<AtomicBool>,
}

impl Lease {
    pub(crate) async fn grant(client: &Client) -> Result<Self> {
        let mut leases = client.lease_client();
        let id = leases.grant(TTL, None).await?.id();
        let (keeper, answers) = leases.keep_alive(id).await?;
        let lease = Self { id, is_lost: Arc::default() };
        tokio::spawn(keep(keeper, answers, Arc::clone(&lease.is_lost)));
        Ok(lease)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

async fn keep(
    mut keeper: LeaseKeeper,
    mut answers: LeaseKeepAliveStream,
    is_lost: Arc<AtomicBool>,
) {
    loop {
        tokio::time::sleep(BETWEEN).await;
        let asked = keeper.keep_alive().await;
        if asked.is_err()
            || !matches!(answers.message().await, Ok(Some(answer)) if answer.ttl() > 0)
        {
            is_lost.store(true, Ordering::Release);
            return;
        }
    }
}
