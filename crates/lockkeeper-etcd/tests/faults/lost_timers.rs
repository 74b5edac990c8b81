//! Minimum holds whose timer has begun in etcd, and the answer to that was lost.

use std::time::Duration;

use lockkeeper::store::{Amend, Store as _};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::keeps::LONG;
use crate::support::{Bare, name};

const TTL: Duration = Duration::from_secs(20);

/// The timer would run for the whole minimum hold otherwise, without a claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_ends_a_timer_that_has_begun_with_a_lost_answer() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let holder = Bare::new(&etcd.url_through(&[&proxy]), &name, TTL).await;
    holder.granted().await;
    let leases = || etcd.control().leases().unwrap().len();
    let before = leases();
    proxy.delay(Way::ToClient, Duration::from_secs(1));
    let (store, key) = (holder.store.clone(), holder.claim.key.clone());
    let amending = tokio::spawn(async move { store.amend(&key, 1, &Amend::MinHold(LONG)).await });
    while leases() == before {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    proxy.cut();
    proxy.heal();
    amending.await.unwrap().unwrap_err();
    holder.withdrawn().await;
    while leases() > before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
