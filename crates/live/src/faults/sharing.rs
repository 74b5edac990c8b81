//! Several clients use one detached session: none of them keeps the others from what they are to
//! find and to do.

use std::time::Duration;

use lockkeeper::store::{Claim, SessionId, SessionSpec, Verdict};

use super::claimant::{Claimant, spec};
use crate::locks::{connected, name};
use crate::server::LiveStore;

const TTL: Duration = Duration::from_secs(30);

fn detached() -> SessionSpec {
    SessionSpec { detached: true, ..spec(TTL) }
}

/// The claim of a waiting client is sent again through another client, and then a third client
/// comes.
pub async fn a_session_is_opened_again_after_a_claim_was_taken_over<S: LiveStore>() {
    let store = S::start().unwrap();
    let [ours, theirs] = Claimant::shared(&store.url(), &name(), &detached()).await;
    assert_eq!(ours.granted().await, theirs.granted().await);
    let third = connected(&store.url()).await;
    third.open(&ours.claim.key.session, &detached()).await.unwrap();
}

/// A request to release a lock is found by the client of before, and by a client that comes after
/// the client that has taken the claim over.
pub async fn a_request_to_let_go_stays_with_a_claim_that_is_taken_over<S: LiveStore>() {
    let store = S::start().unwrap();
    let [ours, theirs] = Claimant::shared(&store.url(), &name(), &detached()).await;
    ours.granted().await;
    let asked =
        ours.store.admin().unwrap().request_release(&ours.claim.key.name, "op", "upgrade").await;
    assert!(asked.unwrap());
    theirs.granted().await;
    for client in [&ours.store, &connected(&store.url()).await] {
        let renewed = client.renew(&ours.claim.key.session, &ours.live()).await.unwrap();
        assert_eq!(renewed.requests.len(), 1, "{:?}", renewed.requests);
    }
}

/// A release and a try are under way at the same time, in this order.
pub async fn a_claim_comes_after_the_release_that_the_same_client_has_begun_before<S: LiveStore>() {
    let store = S::start().unwrap();
    for _ in 0..20 {
        let [ours, _] = Claimant::shared(&store.url(), &name(), &detached()).await;
        ours.granted().await;
        let next = ours.another();
        let trying = Claim { queue: false, resend: false, ..next.claim };
        let (released, verdict) =
            tokio::join!(ours.store.withdraw(&ours.claim.key, None), ours.store.claim(&trying));
        released.unwrap();
        assert!(matches!(verdict, Ok(Verdict::Granted { .. })), "{verdict:?}");
    }
}

/// No store keeps less of a duration than another client compares.
pub async fn durations_with_nanoseconds_are_the_same_for_another_client<S: LiveStore>() {
    let store = S::start().unwrap();
    let [ours, theirs] = Claimant::shared(&store.url(), &name(), &detached()).await;
    let (session, odd) = (SessionId::random(), SessionSpec { wait_ttl: TTL / 7, ..detached() });
    ours.store.open(&session, &odd).await.unwrap();
    theirs.store.open(&session, &odd).await.unwrap();
}
