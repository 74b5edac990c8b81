//! A session whose opening was repeated, and a later session with the same id.

use std::time::Duration;

use lockkeeper::store::{
    Amend, Amended, LiveState, Renewal, SessionId, SessionSpec, Store as _, Verdict, Withdrawal,
};
use lockkeeper_live::Etcd;

use crate::shared::{clients, spec};
use crate::support::{Bare, UNRENEWED, lease_of, line, name};

const TTL: Duration = Duration::from_secs(30);

/// The session has two leases, and etcd has ended the first one.
#[tokio::test(flavor = "multi_thread")]
async fn no_claim_on_another_lease_of_an_ended_session_comes_back() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let [mut ours, mut theirs] = clients(&etcd, &name, TTL).await;
    ours.claim.resend = false;
    ours.queued().await;
    let session = &ours.claim.key.session;
    etcd.control().revoke(lease_of(session)).unwrap();
    theirs.claim = ours.claim.clone();
    theirs.store.open(session, &spec(&theirs)).await.unwrap();
    let renewal = theirs.renew(LiveState::Queued).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(None));
}

/// Only the minimum hold of the claim is left of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_claim_of_an_ended_session_is_no_claim_of_the_next_one() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, mut theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    ours.keeps(TTL * 4).await;
    let session = &ours.claim.key.session;
    etcd.control().revoke(lease_of(session)).unwrap();
    assert!(ours.store.line(&ours.claim.key.name).await.unwrap().entries[0].kept);
    theirs.claim = ours.claim.clone();
    theirs.store.open(session, &spec(&theirs)).await.unwrap();
    let renewal = theirs.renew(LiveState::Granted).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(None));
    let key = &theirs.claim.key;
    let amended = theirs.store.amend(key, u64::MAX >> 12, &Amend::MinHold(TTL)).await.unwrap();
    assert_eq!(amended, Amended::NotLive);
    let verdict = theirs.store.claim(&theirs.claim).await.unwrap();
    assert_eq!(verdict, Verdict::Gone);
    assert_eq!(theirs.withdrawn().await, Withdrawal::Absent);
    assert_eq!(line(&etcd, &name).len(), 1, "the minimum hold is not over");
}

/// The record of the session has whole microseconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_uses_a_session_opens_it_with_the_same_nanoseconds() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    let session = SessionId::random();
    let spec = SessionSpec { wait_ttl: TTL / 7, ..spec(&ours) };
    ours.store.open(&session, &spec).await.unwrap();
    theirs.store.renew(&session, &[]).await.unwrap();
    theirs.store.open(&session, &spec).await.unwrap();
}
