//! Releases that have to read the claim before they can delete it: they keep their place in the
//! order, and delay no other call when they are polled no more. And releases that the next claim
//! takes along.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use lockkeeper::store::{SessionId, SessionSpec, Store as _, Verdict, Withdrawal};
use lockkeeper_live::Etcd;
use serde_json::json;

use crate::shared::clients;
use crate::support::{Bare, UNRENEWED, lease_of, line, name, within};

const TTL: Duration = Duration::from_secs(30);
/// Much more than a few requests to a server on this host take.
const LIMIT: Duration = Duration::from_secs(6);

/// Polls a request once, which sends it.
pub(super) fn poll_once<T: Debug>(asking: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
    let first = asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "it has ended: {first:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_release_of_a_detached_lock_delays_no_claim() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, _] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    let mut left_alone = ours.store.withdraw(&ours.claim.key, None);
    poll_once(&mut left_alone);
    let mut next = ours.another();
    next.claim.queue = false;
    within(LIMIT, next.store.claim(&next.claim)).await.unwrap();
    within(LIMIT, left_alone).await.unwrap();
}

/// The release has to read the claim, since the client does not know what an earlier request of the
/// session has done.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_follows_the_release_before_it_after_a_repeated_opening() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), TTL).await;
    let mut busy = 0;
    for _ in 0..10 {
        let mut ours = first.another();
        ours.claim.key.name = name().parse().unwrap();
        ours.claim.key.session = SessionId::random();
        let session = &ours.claim.key.session;
        // The answer to the first request of the opening was lost.
        let seconds = TTL.as_secs().to_string();
        let lease = json!({ "TTL": seconds, "ID": lease_of(session).to_string() });
        etcd.control().call("lease/grant", &lease).unwrap();
        let durations = SessionSpec::new(TTL, Duration::ZERO);
        let spec = SessionSpec { wait_ttl: ours.claim.wait_ttl, ..durations };
        ours.store.open(session, &spec).await.unwrap();
        ours.granted().await;
        let mut next = ours.another();
        next.claim.queue = false;
        let (released, verdict) =
            tokio::join!(ours.store.withdraw(&ours.claim.key, None), next.store.claim(&next.claim));
        released.unwrap();
        busy += usize::from(!matches!(verdict.unwrap(), Verdict::Granted { .. }));
        assert!(line(&etcd, ours.claim.key.name.as_str()).len() <= 1);
    }
    assert_eq!(busy, 0, "of 10 claims that came after the release of their client");
}

/// The lock was lost, and another client has it. The next claim of this client takes the release
/// along, which does not mean that the claim was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_a_lost_lock_says_so_though_the_next_claim_takes_it_along() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    etcd.control().delete(&line(&etcd, &name)[0].key).unwrap();
    let rival = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    rival.granted().await;
    let next = holder.another();
    let (withdrawn, claimed) =
        tokio::join!(holder.store.withdraw(&holder.claim.key, None), next.store.claim(&next.claim));
    assert!(matches!(claimed, Ok(Verdict::Queued { .. })), "{claimed:?}");
    assert_eq!(withdrawn.unwrap(), Withdrawal::Absent);
}

/// Either request deletes the key, and the answer to the release says that the claim was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_a_held_lock_says_so_whichever_request_deletes_its_key() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), UNRENEWED).await;
    let [detached, _] = clients(&etcd, &name(), TTL).await;
    for bare in [first, detached] {
        for _ in 0..20 {
            let (mut holder, mut next) = (bare.another(), bare.another());
            holder.claim.key.name = name().parse().unwrap();
            next.claim.key.name = holder.claim.key.name.clone();
            holder.granted().await;
            let withdrawing = holder.store.withdraw(&holder.claim.key, None);
            let (withdrawn, ()) = tokio::join!(withdrawing, next.granted());
            assert_eq!(withdrawn.unwrap(), Withdrawal::Removed);
        }
    }
}
