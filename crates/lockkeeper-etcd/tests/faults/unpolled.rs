//! Attempts that are polled no more, and are not dropped, delay no other claim.

use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use lockkeeper::store::{MAX, Store as _, Verdict};
use lockkeeper_live::Etcd;

use crate::support::{
    Bare, LONG, TIME_LIMIT, UNRENEWED, drive, keeper, line, name, patiently, send, until_waiting,
    within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_claim_delays_no_other_claim_on_its_name() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let first = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let mut left_alone = first.store.claim(&first.claim);
    send(&mut left_alone, || line(&etcd, &name).len() == 1).await;
    let second = first.another();
    let verdict = within(TIME_LIMIT, second.store.claim(&second.claim)).await.unwrap();
    assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
    let verdict = within(TIME_LIMIT, left_alone).await.unwrap();
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
}

/// Two readers behind a writer each, on two names: the first reader makes the lease of the waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_claim_that_makes_a_lease_delays_no_claim_of_its_session() {
    let (etcd, names) = (Etcd::start().unwrap(), [name(), name()]);
    let reader = Bare::new(&etcd.url(), &names[0], UNRENEWED).await;
    let readers = names.each_ref().map(|name| {
        let mut one = reader.another();
        (one.claim.weight, one.claim.key.name) = (1, name.parse().unwrap());
        one
    });
    for name in &names {
        Bare::new(&etcd.url(), name, UNRENEWED).await.granted().await;
    }
    let leases = etcd.control().leases().unwrap().len();
    let mut left_alone = readers[0].store.claim(&readers[0].claim);
    drive(&mut left_alone, || etcd.control().leases().unwrap().len() > leases).await;
    within(TIME_LIMIT, readers[1].queued()).await;
    let verdict = within(TIME_LIMIT, left_alone).await.unwrap();
    assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
}

/// Every change of the users makes the tokens invalid. However far a request has come that is about
/// to log in again: another one logs in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_request_that_logs_in_delays_no_other_request() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = crate::rights::with_jwt(folder.path()).login("app", "hunter2").start().unwrap();
    let (store, name) = (crate::support::store(&etcd.url()).await, name().parse().unwrap());
    for polls in 1..10 {
        crate::rights::add_user(&etcd, &format!("user-{polls}"));
        let mut left_alone = store.line(&name);
        for _ in 0..polls {
            if left_alone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        patiently(async || store.line(&name).await).await;
    }
}

/// A grant that was not collected is there all the same, like a grant with a lost answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_nobody_collects_is_withdrawn_as_any_other() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let mut first = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    first.claim.weight = 1;
    let mut left_alone = first.store.claim(&first.claim);
    send(&mut left_alone, || line(&etcd, &name).len() == 1).await;
    first.store.withdraw(&first.claim.key, Some(UNRENEWED)).await.unwrap();
    drop(left_alone);
    let mut writer = first.another();
    writer.claim.weight = MAX;
    writer.granted().await;
    assert_eq!(line(&etcd, &name).len(), 1);
}

/// A deletion has given the waiter its turn. The waiter has received the message and has not read
/// it, and its renewals find the turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_waiter_delays_its_line_for_seconds_only() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let (first, second) = (keeper(&etcd.url(), LONG).await, keeper(&etcd.url(), LONG).await);
    let mutex = first.mutex(&name).unwrap();
    let mut left_alone: Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(mutex.lock().into_future());
    drive(&mut left_alone, || line(&etcd, &name).len() == 2).await;
    // Until its watch has begun.
    let mut polls = 0..500;
    drive(&mut left_alone, || polls.next().is_none()).await;
    let waiting = tokio::spawn(second.mutex(&name).unwrap().lock().into_future());
    until_waiting(&second, &name, 2).await;
    holder.store.withdraw(&holder.claim.key, None).await.unwrap();
    drop(within(TIME_LIMIT, waiting).await.unwrap().unwrap());
    drop(left_alone);
}
