//! Several clients use one detached session: none of them keeps the others from what they are to
//! find and to do.

use std::time::Duration;

use lockkeeper::store::{Claim, Live, LiveState, SessionId, SessionSpec, Store as _, Verdict};
use lockkeeper_live::Etcd;

use crate::shared::{clients, spec};
use crate::support::{Bare, lease_of, line, name, store};

const TTL: Duration = Duration::from_secs(30);

/// The claim of a waiting client is sent again through another client, and then a third client
/// comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_again_after_a_claim_was_taken_over() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    theirs.granted().await;
    let third = store(&etcd.url()).await;
    third.open(&ours.claim.key.session, &spec(&ours)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_let_go_stays_with_a_claim_that_is_taken_over() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    let asked =
        ours.store.admin().unwrap().request_release(&ours.claim.key.name, "op", "upgrade").await;
    assert!(asked.unwrap());
    theirs.granted().await;
    let live = [Live { key: ours.claim.key.clone(), state: LiveState::Granted }];
    // The client of before finds it, as does one that comes after the client that has taken the
    // claim over.
    for client in [&ours.store, &store(&etcd.url()).await] {
        let requests = client.renew(&ours.claim.key.session, &live).await.unwrap().requests;
        assert_eq!(requests.len(), 1, "{requests:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_comes_after_the_release_that_the_same_client_has_begun_before() {
    let etcd = Etcd::start().unwrap();
    for _ in 0..20 {
        let name = name();
        let [ours, _] = clients(&etcd, &name, TTL).await;
        ours.granted().await;
        let mut next = ours.another();
        (next.claim.queue, next.claim.resend) = (false, false);
        let (released, verdict) =
            tokio::join!(ours.store.withdraw(&ours.claim.key, None), next.store.claim(&next.claim));
        released.unwrap();
        assert!(matches!(verdict, Ok(Verdict::Granted { .. })), "{verdict:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_with_nanoseconds_are_the_same_for_another_client() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    let (session, spec) = (SessionId::random(), SessionSpec { wait_ttl: TTL / 7, ..spec(&ours) });
    ours.store.open(&session, &spec).await.unwrap();
    theirs.store.open(&session, &spec).await.unwrap();
}

/// The waiters' lease of a session is there after its first lease has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_ends_the_other_leases_of_a_session_that_has_lost_its_first_one() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    let waiter =
        Bare { store: ours.store.clone(), claim: Claim { resend: false, ..ours.another().claim } };
    waiter.queued().await;
    assert_eq!(line(&etcd, &name).len(), 2);
    etcd.control().revoke(lease_of(&ours.claim.key.session)).unwrap();
    theirs.store.close(&ours.claim.key.session, &[]).await.unwrap();
    assert_eq!(line(&etcd, &name).len(), 1, "only the holder of another session is left");
}
