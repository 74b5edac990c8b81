//! With few claims ahead, one watch reports all of them to a waiter.

use std::fmt::Debug;
use std::pin::Pin;

use lockkeeper::store::{Admin as _, Evict, Interest, Revision, Store as _, Target, Wake};
use lockkeeper_live::Etcd;

use crate::support::{Bare, LONG, TIME_LIMIT, UNRENEWED, drive, line, name, within};

/// The claims ahead leave in any order: the last of them lets the waiter in, and no earlier one.
#[tokio::test]
async fn in_a_short_line_only_the_last_end_ahead_lets_the_waiter_in() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let others = [
        Bare::new(&etcd.url(), &name, UNRENEWED).await,
        Bare::new(&etcd.url(), &name, UNRENEWED).await,
    ];
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

/// The watch also reports the waiter's own end: a waiter that is gone does not get the lock.
#[tokio::test]
async fn a_waiter_in_a_short_line_notices_its_own_end() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (_holder, waiter) = two(&etcd, &name).await;
    let mut wait = waiter.store.wait(Interest::Claim(&waiter.claim.key), Revision::default(), LONG);
    goes_on(&mut wait).await;
    for entry in line(&etcd, &name).iter().rev() {
        etcd.control().delete(&entry.key).unwrap();
    }
    assert_eq!(within(TIME_LIMIT, wait).await.unwrap(), Wake::Changed);
}

/// The watch reports ends only; another way reports the break to its client.
#[tokio::test]
async fn a_waiter_in_a_short_line_learns_that_it_was_broken() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (holder, waiter) = two(&etcd, &name).await;
    let mut wait = waiter.store.wait(Interest::Claim(&waiter.claim.key), Revision::default(), LONG);
    goes_on(&mut wait).await;
    let target = Target::Id(waiter.claim.key.id.hash());
    holder.store.evict(&holder.claim.key.name, &target, Evict::Mark, "me", "a test").await.unwrap();
    assert_eq!(within(TIME_LIMIT, wait).await.unwrap(), Wake::Changed);
}

/// A holder of the lock, and a waiter behind it.
async fn two(etcd: &Etcd, name: &str) -> (Bare, Bare) {
    let holder = Bare::new(&etcd.url(), name, UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), name, UNRENEWED).await;
    holder.granted().await;
    waiter.queued().await;
    (holder, waiter)
}

/// The wait goes on for a while: no message up to then has ended it.
async fn goes_on<T: Debug>(wait: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
    let mut polls = 0..50;
    drive(wait, || polls.next().is_none()).await;
}
