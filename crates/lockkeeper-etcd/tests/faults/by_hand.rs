//! An administrator revokes leases and deletes keys.

use std::time::Duration;

use lockkeeper::store::{LiveState, Renewal, Store as _, Verdict, Wake};
use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::Etcd;

use crate::support::{
    Bare, LONG, TIME_LIMIT, UNRENEWED, is_free, keeper, line, name, waiter, within,
};

/// The next renewal finds the loss; no other event reports it.
const TTL: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_revoked_under_a_holder() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = keeper(&etcd.url(), LONG).await;
    let (guard, other) =
        (holder.mutex(&name).unwrap().lock().await.unwrap(), holder.mutex("other").unwrap());
    let other = other.lock().await.unwrap();
    etcd.control().revoke(line(&etcd, &name)[0].lease).unwrap();
    // The next renewal finds the loss, long before the lease ends.
    within(TIME_LIMIT, guard.lost()).await;
    // All keys of the lease are gone with it.
    within(TIME_LIMIT, other.lost()).await;
    // The next lock is in a new session.
    let again = holder.mutex(&name).unwrap().lock().await.unwrap();
    assert!(again.token() > guard.token());
    again.release().await.unwrap();
}

/// The holder leaves, and still the waiter is not granted: the waiter looks at its own key, which
/// is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_revoked_under_a_waiter_which_is_never_granted_afterwards() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    waiter.queued().await;
    let waiting = waiter.wait();
    let claims = line(&etcd, &name);
    let lease = claims.iter().max_by_key(|entry| entry.create_revision).unwrap().lease;
    let meddling = async {
        etcd.control().revoke(lease).unwrap();
        holder.store.withdraw(&holder.claim.key, None).await.unwrap();
    };
    let (woken, ()) = tokio::join!(waiting, meddling);
    assert_eq!(woken, Wake::Changed);
    let mut again = waiter.claim.clone();
    again.resend = true;
    assert_eq!(waiter.store.claim(&again).await.unwrap(), Verdict::Gone);
    assert_eq!(waiter.renew(LiveState::Queued).await.unwrap(), Renewal::Lost(None));
    assert_eq!(waiter.wait().await, Wake::Changed);
    assert!(line(&etcd, &name).is_empty());
}

/// A waiter that loses its place gets another one, at the end, and then the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_session_ends_joins_the_line_again() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let (holder, other) = (keeper(&etcd.url(), LONG).await, keeper(&etcd.url(), TTL).await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = waiter(&other, &name).await;
    let before = line(&etcd, &name);
    let claim = before.iter().max_by_key(|entry| entry.create_revision).unwrap();
    for lease in etcd.control().leases().unwrap() {
        // All leases except the holder's: those of the waiter's session, with and without waiters.
        if lease != before.iter().min_by_key(|entry| entry.create_revision).unwrap().lease {
            etcd.control().revoke(lease).unwrap();
        }
    }
    let claiming_again = async {
        while !line(&etcd, &name).iter().any(|entry| entry.create_revision > claim.create_revision)
        {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, claiming_again).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.check().unwrap();
    next.release().await.unwrap();
    is_free(&holder, &name).await;
}

/// etcd goes on renewing the lease, and answers so. The holder learns of the loss all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_deleted_under_a_healthy_session() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = keeper(&etcd.url(), TTL).await;
    let (mutex, safe) =
        (holder.mutex(&name).unwrap(), holder.mutex("safe").unwrap().lock().await.unwrap());
    let guard = mutex.lock().await.unwrap();
    let waiting = waiter(&keeper(&etcd.url(), LONG).await, &name).await;
    let holding = line(&etcd, &name).into_iter().min_by_key(|entry| entry.create_revision).unwrap();
    assert!(etcd.control().delete(&holding.key).unwrap());
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    // At its next renewal at the latest; its session does not end.
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Forgotten);
    assert_eq!(guard.renew_once().await.unwrap_err().kind(), ErrorKind::Lost);
    drop(guard);
    safe.check().unwrap();
    next.check().unwrap();
    assert!(etcd.control().lease_left(holding.lease).unwrap().is_some(), "its lease lives");
    assert!(holder.check_sequencer(&next.sequencer()).await.unwrap());
}
