//! The leases of tombstones.

use std::time::{Duration, Instant};

use lockkeeper::store::{Claim, Store as _, TOMBSTONE_MIN, Verdict};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::releases::poll_once;
use crate::support::{Bare, UNRENEWED, name, patiently, within};

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

/// So many holders at an etcd that falls silent release with a tombstone. Returns how long each
/// release took, the shortest first.
async fn released_at_a_silent_etcd(many: usize, timeout: &str) -> Vec<Duration> {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let url = format!("{}?timeout={timeout}", etcd.url_through(&[&proxy]));
    let holders = holders(many, &url).await;
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
    took
}

/// So many holders of one session.
async fn holders(many: usize, url: &str) -> Vec<Bare> {
    let first = Bare::new(url, &name(), UNRENEWED).await;
    let mut holders = Vec::new();
    for _ in 0..many {
        let mut holder = first.another();
        holder.claim.key.name = name().parse().unwrap();
        let verdict = patiently(async || holder.store.claim(&holder.claim).await).await;
        assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
        holders.push(holder);
    }
    holders
}

/// etcd is silent. The releases that wait for the lease of one of them fail with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_at_a_silent_etcd_do_not_wait_one_after_the_other() {
    let took = released_at_a_silent_etcd(12, "500ms").await;
    assert!(took[11] < Duration::from_secs(3), "{took:?}");
}

/// An attempt ends with the time-out, which is not long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_with_a_short_timeout_do_not_wait_one_after_the_other() {
    let took = released_at_a_silent_etcd(40, "200ms").await;
    assert!(took[39] < Duration::from_secs(3), "{took:?}");
}

/// One of three members is silent. The release that asks this member fails, and the releases that
/// wait for its lease ask another member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_behind_one_that_asks_a_silent_member_ask_another_member() {
    let etcd = Etcd::builder().members(3).start().unwrap();
    let addresses = etcd.addresses();
    let proxy = Proxy::raw(addresses[0]).unwrap();
    let url = format!("etcd://{},{},{}?timeout=2s", proxy.address(), addresses[1], addresses[2]);
    let holders = holders(12, &url).await;
    proxy.black_hole(Way::ToClient);
    let releases = holders.into_iter().map(|holder| {
        tokio::spawn(
            async move { holder.store.withdraw(&holder.claim.key, Some(TOMBSTONE_MIN)).await },
        )
    });
    let mut failed = Vec::new();
    for release in releases.collect::<Vec<_>>() {
        failed.extend(release.await.unwrap().err());
    }
    assert!(failed.len() <= 1, "{} releases have failed: {failed:?}", failed.len());
}
