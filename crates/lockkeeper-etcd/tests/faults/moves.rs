//! A claim is moved from one lease to another during another operation on it.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper::store::{LiveState, Renewal, Store as _, Verdict};
use lockkeeper_live::Etcd;

use crate::support::{Bare, TIME_LIMIT, UNRENEWED, drive, lease_of, line, name, send, within};

/// A reader has joined behind a writer, and is to be moved to the lease of the waiters. Before the
/// move the writer leaves, and a renewal finds that the reader holds the lock. Then the move comes
/// too late: a holder stays on the lease of the holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_comes_late_does_not_take_a_grant_back() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let writer = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let mut reader = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    reader.claim.weight = 1;
    writer.granted().await;
    let leases = etcd.control().leases().unwrap().len();
    let mut claiming = reader.store.claim(&reader.claim);
    // The reader is in line, and the lease of the waiters is made.
    drive(&mut claiming, || etcd.control().leases().unwrap().len() > leases).await;
    writer.store.withdraw(&writer.claim.key, None).await.unwrap();
    let Renewal::Held { token, .. } = reader.renew(LiveState::InFlight).await.unwrap() else {
        panic!("it holds")
    };
    // The answer says that the reader waits; no answer says that it lost the lock.
    within(TIME_LIMIT, claiming).await.unwrap();
    let session = lease_of(&reader.claim.key.session);
    let claims = line(&etcd, &name);
    assert_eq!(claims.iter().map(|entry| entry.lease).collect::<Vec<_>>(), [session]);
    assert_eq!(reader.renew(LiveState::Granted).await.unwrap().token(), Some(token));
}

/// Two readers are to be moved to the lease of the waiters, which an administrator has revoked.
/// Both learn of that: the later reader has not lost its session.
#[tokio::test]
async fn a_waiters_lease_that_ends_under_two_readers_costs_neither_its_session() {
    let (etcd, names) = (Etcd::start().unwrap(), [name(), name(), name()]);
    let writer = Bare::new(&etcd.url(), &names[0], UNRENEWED).await;
    let reader = Bare::new(&etcd.url(), &names[0], UNRENEWED).await;
    let mut readers = Vec::new();
    for name in &names {
        let (mut writes, mut reads) = (writer.another(), reader.another());
        writes.claim.key.name = name.parse().unwrap();
        (reads.claim.weight, reads.claim.key.name) = (1, writes.claim.key.name.clone());
        writes.granted().await;
        readers.push(reads);
    }
    let mut first = readers[0].store.claim(&readers[0].claim);
    send(&mut first, || line(&etcd, &names[0]).len() == 2).await;
    let mut second = readers[1].store.claim(&readers[1].claim);
    send(&mut second, || line(&etcd, &names[1]).len() == 2).await;
    // The third reader lets the lease be made, and the answers to the others arrive.
    readers[2].queued().await;
    let claims = line(&etcd, &names[2]);
    etcd.control()
        .revoke(claims.iter().max_by_key(|entry| entry.create_revision).unwrap().lease)
        .unwrap();
    let (first, second) = within(TIME_LIMIT, async { tokio::join!(first, second) }).await;
    for verdict in [first.unwrap(), second.unwrap()] {
        assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
    }
}

/// A repeated claim and a renewal both find that the claim holds the lock, and both move it: the
/// claim keeps its place, however far one move is when the other is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_faster_does_not_spend_the_claim() {
    let etcd = Etcd::start().unwrap();
    for polls in 0..8 {
        let name = name();
        let first = Bare::new(&etcd.url(), &name, UNRENEWED).await;
        let mut next = Bare::new(&etcd.url(), &name, UNRENEWED).await;
        first.granted().await;
        next.queued().await;
        first.store.withdraw(&first.claim.key, None).await.unwrap();
        next.claim.resend = true;
        let mut claiming = next.store.claim(&next.claim);
        let mut cx = Context::from_waker(Waker::noop());
        let mut printed = None;
        for _ in 0..polls {
            if let Poll::Ready(verdict) = claiming.as_mut().poll(&mut cx) {
                printed = Some(verdict);
                break;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let Renewal::Held { token, .. } = next.renew(LiveState::Queued).await.unwrap() else {
            panic!("it holds")
        };
        let printed = match printed {
            Some(printed) => printed,
            None => within(TIME_LIMIT, claiming).await,
        };
        assert!(
            matches!(printed.unwrap(), Verdict::Granted { token: printed, .. } if printed == token),
            "after {polls} polls"
        );
    }
}
