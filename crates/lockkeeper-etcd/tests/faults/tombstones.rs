//! The leases of tombstones.

use std::time::{Duration, Instant};

use lockkeeper::store::{Claim, Store as _, TOMBSTONE_MIN};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::releases::poll_once;
use crate::support::{Bare, UNRENEWED, name, within};

/// Much more than a few requests to a server on this host take.
const LIMIT: Duration = Duration::from_secs(6);

/// A resend that finds nothing needs a tombstone too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_withdrawal_that_makes_a_lease_delays_no_tombstone() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), UNRENEWED).await;
    let mut second = first.another();
    second.claim.key.name = name().parse().unwrap();
    let mut left_alone = first.store.withdraw(&first.claim.key, Some(TOMBSTONE_MIN));
    poll_once(&mut left_alone);
    let again = Claim { resend: true, ..second.another().claim };
    let (withdrawn, resent) = within(LIMIT, async {
        tokio::join!(
            second.store.withdraw(&second.claim.key, Some(TOMBSTONE_MIN)),
            second.store.claim(&again),
        )
    })
    .await;
    withdrawn.unwrap();
    resent.unwrap();
    within(LIMIT, left_alone).await.unwrap();
}

/// etcd is silent. The releases that wait for the lease of one of them fail with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_at_a_silent_etcd_do_not_wait_one_after_the_other() {
    const MANY: usize = 12;
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let url = format!("{}?timeout=500ms", etcd.url_through(&[&proxy]));
    let first = Bare::new(&url, &name(), UNRENEWED).await;
    let mut holders = Vec::new();
    for _ in 0..MANY {
        let mut holder = first.another();
        holder.claim.key.name = name().parse().unwrap();
        holder.granted().await;
        holders.push(holder);
    }
    proxy.black_hole(Way::ToClient);
    let begun = Instant::now();
    let releases = holders.into_iter().map(|holder| {
        tokio::spawn(async move {
            let tombstone = Some(Duration::from_secs(60));
            let _ = holder.store.withdraw(&holder.claim.key, tombstone).await.unwrap_err();
            begun.elapsed()
        })
    });
    let mut took = Vec::new();
    for release in releases.collect::<Vec<_>>() {
        took.push(release.await.unwrap());
    }
    took.sort();
    assert!(took[MANY - 1] < Duration::from_secs(3), "{took:?}");
}
