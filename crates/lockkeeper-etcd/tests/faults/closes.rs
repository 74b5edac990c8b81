//! A close of a detached session ends its claims, wherever they are, and no minimum hold.

use std::time::Duration;

use lockkeeper::store::{Evict, Store as _, Target};
use lockkeeper_live::Etcd;

use crate::keeps::{LONG, only, timer};
use crate::shared::clients;
use crate::support::{lease_of, line, name};

const TTL: Duration = Duration::from_secs(30);

/// The closing client has neither made nor listed the claim. The mark has moved the claim to a
/// lease of the operator.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_through_another_client_ends_a_marked_claim() {
    for first_lease_is_gone in [false, true] {
        let (etcd, name) = (Etcd::start().unwrap(), name());
        let [ours, theirs] = clients(&etcd, &name, TTL).await;
        ours.granted().await;
        let target = Target::Id(ours.claim.key.id.hash());
        let admin = ours.store.admin().unwrap();
        let evicted = admin.evict(&ours.claim.key.name, &target, Evict::Mark, "op", "stuck").await;
        evicted.unwrap();
        if first_lease_is_gone {
            etcd.control().revoke(lease_of(&ours.claim.key.session)).unwrap();
        }
        theirs.store.close(&ours.claim.key.session, &[]).await.unwrap();
        let left = line(&etcd, &name);
        let seconds: Vec<_> =
            left.iter().map(|claim| etcd.control().lease_left(claim.lease).unwrap()).collect();
        assert!(left.is_empty(), "it stays for {seconds:?} s after the close of its session");
    }
}

/// The claim is on another lease of the session, and etcd has ended the first one.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_of_what_is_left_of_a_session_keeps_a_minimum_hold() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    ours.keeps(LONG).await;
    let session = &ours.claim.key.session;
    // As a client does that has made another lease for holders, and holds the claim there.
    let lease = etcd.control().grant(30).unwrap();
    let shown = format!("/lockkeeper/.session/{:x}/hold-{lease:x}", lease_of(session));
    etcd.control().put_with_lease(shown, "", lease).unwrap();
    let (kept, _) = only(&etcd, &name);
    etcd.control().put_with_lease(&kept.key, &kept.value, lease).unwrap();
    etcd.control().revoke(lease_of(session)).unwrap();
    theirs.store.close(session, &[]).await.unwrap();
    let (kept, record) = only(&etcd, &name);
    assert_eq!(kept.lease, timer(&record));
    assert_eq!(record["keep"]["released"], true);
}
