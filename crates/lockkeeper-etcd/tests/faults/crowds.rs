//! Many at the same time: on one name, or of one session.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::store::{Live, LiveState, Renewal, Store as _, Verdict};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::support::{Bare, TIME_LIMIT, UNRENEWED, keeper, name, within};

/// More than fit into one transaction.
const MANY: u64 = 150;

/// The lock of many waiters becomes free at once. The renewal that finds this grants the claims
/// together, and not one after the other: the grants have to be done within a waiter's ttl, however
/// far etcd is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_are_admitted_at_once_are_let_in_together() {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let holder = Bare::new(&etcd.url(), "all", UNRENEWED).await;
    let waiter = Bare::new(&etcd.url_through(&[&proxy]), "all", UNRENEWED).await;
    let mut live = Vec::new();
    for number in 0..MANY {
        let (mut holds, mut waits) = (holder.another(), waiter.another());
        holds.claim.key.name = format!("n{number}").parse().unwrap();
        waits.claim.key.name = holds.claim.key.name.clone();
        holds.granted().await;
        waits.queued().await;
        live.push(Live { key: waits.claim.key, state: LiveState::Queued });
    }
    holder.store.close(&holder.claim.key.session, &[]).await.unwrap();
    let before = proxy.seen().requests;
    let renewed = waiter.store.renew(&waiter.claim.key.session, &live).await.unwrap();
    let asked = proxy.seen().requests - before;
    for renewal in &renewed.claims {
        assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    }
    assert!(asked < MANY / 2, "{asked} packets for {MANY} claims");
    live.iter_mut().for_each(|live| live.state = LiveState::Granted);
    let again = waiter.store.renew(&waiter.claim.key.session, &live).await.unwrap();
    assert_eq!(again.claims, renewed.claims);
}

/// Whenever a try has looked, another client has joined before the try puts its claim there; and
/// there is room for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_that_others_overtake_again_and_again_gets_what_is_free() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let mut trying = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    let mut others = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    for bare in [&mut trying, &mut others] {
        (bare.claim.weight, bare.claim.capacity, bare.claim.queue) = (1, 1_000_000, false);
    }
    others.claim.queue = true;
    others.granted().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let joining = tokio::spawn(async move {
        // Another client has always just joined.
        let mut last = others;
        while !ends.load(Ordering::Relaxed) {
            let next = last.another();
            next.granted().await;
            last.store.withdraw(&last.claim.key, None).await.unwrap();
            last = next;
        }
    });
    proxy.delay(Way::Both, Duration::from_millis(15));
    let verdict = within(TIME_LIMIT, trying.store.claim(&trying.claim)).await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    joining.await.unwrap();
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
}

/// The holders release one after the other, so that most ids of the waiters end before their turn
/// comes. This costs the other claims nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_get_the_lock_even_if_most_waits_outlast_a_claims_ttl() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let keeper = keeper(&etcd.url_through(&[&proxy]), Duration::from_secs(6)).await;
    let semaphore = keeper.semaphore(&name, 1000).unwrap();
    proxy.delay(Way::Both, Duration::from_millis(25));
    let acquiring: Vec<_> =
        (0..150).map(|_| tokio::spawn(semaphore.acquire().into_future())).collect();
    for acquired in acquiring {
        drop(within(TIME_LIMIT * 3, acquired).await.unwrap().unwrap());
    }
}
