//! Where few are ahead, one watch tells a waiter of them all.

use std::fmt::Debug;
use std::pin::Pin;

use lockkeeper::store::{Admin as _, Evict, Interest, Revision, Store as _, Target, Wake};
use lockkeeper_live::Etcd;

use super::{Bare, LONG, TIME_LIMIT, UNRENEWED, drive, line, name, within};

/// Whoever leaves, in whatever order: the last of them lets the waiter in, and nobody before.
#[tokio::test]
async fn whoever_leaves_a_short_line_the_last_one_lets_the_next_in() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let others = [Bare::new(&etcd.url(), &name, UNRENEWED).await, Bare::new(&etcd.url(), &name, UNRENEWED).await];
    let waiter = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    for waiting in others.iter().chain([&waiter]) {
        waiting.queued().await;
    }
    let token = line(&etcd, &name)[3].create_revision;
    let mut wait = waiter.store.wait(Interest::Claim(&waiter.claim.key), Revision::default(), LONG);
    for leaving in [&others[1], &others[0], &holder] {
        goes_on(&mut wait).await;
        leaving.store.withdraw(&leaving.claim.key, None).await.unwrap();
    }
    let wake = within(TIME_LIMIT, wait).await.unwrap();
    assert_eq!(wake, Wake::Granted { token: token.unsigned_abs() });
}

/// Its own end is among what the watch tells: nobody has the lock then who is not there any more.
#[tokio::test]
async fn who_waits_in_a_short_line_hears_of_its_own_end() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (_holder, waiter) = two(&etcd, &name).await;
    let mut wait = waiter.store.wait(Interest::Claim(&waiter.claim.key), Revision::default(), LONG);
    goes_on(&mut wait).await;
    for entry in line(&etcd, &name).iter().rev() {
        etcd.control().delete(&entry.key).unwrap();
    }
    assert_eq!(within(TIME_LIMIT, wait).await.unwrap(), Wake::Changed);
}

/// The watch tells of ends only; that it was broken its client is told otherwise.
#[tokio::test]
async fn who_waits_in_a_short_line_hears_that_it_was_broken() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (holder, waiter) = two(&etcd, &name).await;
    let mut wait = waiter.store.wait(Interest::Claim(&waiter.claim.key), Revision::default(), LONG);
    goes_on(&mut wait).await;
    let target = Target::Id(waiter.claim.key.id.hash());
    holder.store.evict(&holder.claim.key.name, &target, Evict::Mark, "me", "a test").await.unwrap();
    assert_eq!(within(TIME_LIMIT, wait).await.unwrap(), Wake::Changed);
}

/// One who holds the lock, and one behind it.
async fn two(etcd: &Etcd, name: &str) -> (Bare, Bare) {
    let holder = Bare::new(&etcd.url(), name, UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), name, UNRENEWED).await;
    holder.granted().await;
    waiter.queued().await;
    (holder, waiter)
}

/// It goes on for a while: what it may have heard by then has not ended it.
async fn goes_on<T: Debug>(wait: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
    let mut polls = 0..50;
    drive(wait, || polls.next().is_none()).await;
}
