//! Claims of a detached session that are sent again through another client.

use std::time::{Duration, Instant};

use lockkeeper::EtcdStore;
use lockkeeper::store::{Claim, ClaimId, Live, LiveState, SessionId, Store as _, Verdict};
use lockkeeper::time::believed;
use lockkeeper_live::Etcd;

use crate::shared::clients;
use crate::support::{Bare, UNRENEWED, lease_of, name, store};

/// Renews the session with none of its claims. An unknown claim makes the renewal list the keys of
/// all leases.
async fn misses_all(store: &EtcdStore, claim: &Claim) {
    let mut key = claim.key.clone();
    key.id = ClaimId::random();
    store.renew(&claim.key.session, &[Live { key, state: LiveState::InFlight }]).await.unwrap();
}

fn is_missed(etcd: &Etcd, session: &SessionId) -> bool {
    let reports = format!("/lockkeeper/.session/{:x}/missed", lease_of(session));
    !etcd.control().keys(reports).unwrap().is_empty()
}

/// A client reports the claim as missed, and its count of the ttl is almost over when a third
/// client sends the claim again. The third client believes in the answer for a whole ttl.
async fn is_kept_for_a_ttl_after_it_was_sent_again(sent_by_its_client: bool) {
    let (etcd, name, ttl) = (Etcd::start().unwrap(), name(), Duration::from_secs(6));
    let [ours, theirs] = clients(&etcd, &name, ttl).await;
    let third = Bare { store: store(&etcd.url()).await, claim: theirs.claim.clone() };
    let rival = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let session = &ours.claim.key.session;
    ours.granted().await;
    while !is_missed(&etcd, session) {
        misses_all(&theirs.store, &theirs.claim).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counted = Instant::now();
    while counted.elapsed() < ttl * 3 / 4 {
        misses_all(&theirs.store, &theirs.claim).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sender = if sent_by_its_client { &ours.store } else { &third.store };
    sender.renew(session, &[]).await.unwrap();
    let sent = Instant::now();
    let verdict = sender.claim(&third.claim).await.unwrap();
    assert!(matches!(verdict, Verdict::Granted { ttl: kept, .. } if kept == ttl), "{verdict:?}");
    while sent.elapsed() < believed(ttl) - Duration::from_millis(200) {
        misses_all(&theirs.store, &theirs.claim).await;
        let verdict =
            rival.store.claim(&Claim { queue: false, ..rival.another().claim }).await.unwrap();
        let after = sent.elapsed();
        assert!(matches!(verdict, Verdict::Busy { .. }), "after {after:?} of {ttl:?}: {verdict:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_sent_again_through_another_client_starts_its_life_again() {
    is_kept_for_a_ttl_after_it_was_sent_again(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_sent_again_through_its_own_client_starts_its_life_again() {
    is_kept_for_a_ttl_after_it_was_sent_again(true).await;
}
