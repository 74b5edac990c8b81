//! Sessions whose first lease has the id that a hash of the session's id gives it.

use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::store::{
    Claim, ClaimId, LiveState, Renewal, SessionId, SessionSpec, Store as _, Verdict,
};
use lockkeeper_live::Etcd;
use serde_json::json;

use crate::support::{Bare, lease_of, line, name, store};

const TTL: Duration = Duration::from_secs(30);

fn spec(detached: bool) -> SessionSpec {
    SessionSpec { detached, ..SessionSpec::new(TTL, Duration::ZERO) }
}

/// Makes the lease that a session would have.
fn grant(etcd: &Etcd, session: &SessionId, seconds: u64) -> i64 {
    let lease = lease_of(session);
    let request = json!({ "ID": lease.to_string(), "TTL": seconds.to_string() });
    etcd.control().call("lease/grant", &request).unwrap();
    lease
}

#[tokio::test]
async fn what_another_program_has_put_on_the_lease_of_a_session_is_left_alone() {
    let etcd = Etcd::start().unwrap();
    let store = store(&etcd.url()).await;
    for detached in [false, true] {
        let (crowded, longer) = (SessionId::random(), SessionId::random());
        let leases =
            [grant(&etcd, &crowded, TTL.as_secs()), grant(&etcd, &longer, 2 * TTL.as_secs())];
        let foreign = format!("/another/program/{detached}");
        etcd.control().put_with_lease(&foreign, "theirs", leases[0]).unwrap();
        for session in [&crowded, &longer] {
            let error = store.open(session, &spec(detached)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
            store.close(session, &[]).await.unwrap();
        }
        assert_eq!(etcd.control().lease_keys(leases[0]).unwrap(), [foreign.as_bytes()]);
        assert!(leases.iter().all(|lease| etcd.control().leases().unwrap().contains(lease)));
        store.open(&SessionId::random(), &spec(detached)).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_in_the_place_of_a_session_is_left_alone() {
    let etcd = Etcd::start().unwrap();
    let (store, session) = (store(&etcd.url()).await, SessionId::random());
    let place = format!("/lockkeeper/.session/{:x}", lease_of(&session));
    etcd.control()
        .put(&place, r#"{"lockkeeper":1,"ttl_us":1,"wait_ttl_us":1,"lock_delay_us":1}"#)
        .unwrap();
    let error = store.open(&session, &spec(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert_eq!(store.renew(&session, &[]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert!(etcd.control().get(&place).unwrap().is_some());
}

/// A client with a detached session, and another client of that session that has not opened it.
async fn two_clients(etcd: &Etcd, name: &str) -> [Bare; 2] {
    let mut ours = Bare::new(&etcd.url(), name, TTL).await;
    ours.claim.key.session = SessionId::random();
    let spec = SessionSpec { wait_ttl: ours.claim.wait_ttl, ..spec(true) };
    ours.store.open(&ours.claim.key.session, &spec).await.unwrap();
    let theirs = Bare {
        store: store(&etcd.url()).await,
        claim: Claim { resend: true, ..ours.claim.clone() },
    };
    [ours, theirs]
}

/// Moves the claim of a detached session to another lease of that session, which a third client has
/// made.
fn move_to_another_lease(etcd: &Etcd, claim: &Claim, purpose: &str) -> i64 {
    let lease = grant(etcd, &SessionId::random(), TTL.as_secs());
    let shown =
        format!("/lockkeeper/.session/{:x}/{purpose}-{lease:x}", lease_of(&claim.key.session));
    etcd.control().put_with_lease(shown, "", lease).unwrap();
    let slot: String = claim.key.id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut line = line(etcd, claim.key.name.as_str()).into_iter();
    let key = line.find(|key| key.key.ends_with(slot.as_bytes())).expect("the claim");
    etcd.control().put_with_lease(&key.key, &key.value, lease).unwrap();
    lease
}

/// Else the claim would end with that lease, while the client believes for a whole ttl from its own
/// renewal on.
#[tokio::test]
async fn a_claim_on_a_lease_that_another_client_renews_moves_to_one_that_this_client_renews() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = two_clients(&etcd, &name).await;
    ours.granted().await;
    let session = &ours.claim.key.session;
    theirs.store.renew(session, &[]).await.unwrap();
    let lease = move_to_another_lease(&etcd, &ours.claim, "hold");
    theirs.granted().await;
    etcd.control().revoke(lease).unwrap();
    let renewal = theirs.renew(LiveState::Granted).await.unwrap();
    assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
}

/// A repeated opening renews the session with all its claims, wherever they are.
#[tokio::test]
async fn a_repeated_opening_renews_the_leases_of_all_clients() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, _] = two_clients(&etcd, &name).await;
    ours.granted().await;
    let lease = move_to_another_lease(&etcd, &ours.claim, "hold");
    let left = || etcd.control().lease_left(lease).unwrap().unwrap();
    let whole = left();
    while left() >= whole {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let spec = SessionSpec { wait_ttl: ours.claim.wait_ttl, ..spec(true) };
    ours.store.open(&ours.claim.key.session, &spec).await.unwrap();
    assert!(left() >= whole);
}

#[tokio::test]
async fn a_claim_waits_on_a_lease_of_another_client() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    let [ours, theirs] = two_clients(&etcd, &name).await;
    ours.queued().await;
    theirs.queued().await;
    move_to_another_lease(&etcd, &ours.claim, "wait");
    theirs.queued().await;
    let verdict = ours.store.claim(&theirs.claim).await.unwrap();
    assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
}

/// The first calls of a client ask what the session is.
#[tokio::test]
async fn the_first_claims_of_another_client_stay_in_their_order() {
    let etcd = Etcd::start().unwrap();
    for _ in 0..10 {
        let name = name();
        let [ours, theirs] = two_clients(&etcd, &name).await;
        ours.granted().await;
        let mut claims = vec![ours.claim.key.id];
        let sent: Vec<_> = (0..4)
            .map(|_| {
                let mut claim = ours.claim.clone();
                claim.key.id = ClaimId::random();
                claims.push(claim.key.id);
                claim
            })
            .collect();
        let [a, b, c, d] = &sent[..] else { unreachable!() };
        let store = &theirs.store;
        tokio::try_join!(store.claim(a), store.claim(b), store.claim(c), store.claim(d)).unwrap();
        let line = store.line(&ours.claim.key.name).await.unwrap();
        let found: Vec<_> = line.entries.iter().map(|entry| entry.id).collect();
        assert_eq!(found, claims.iter().map(ClaimId::hash).collect::<Vec<_>>());
    }
}

/// What the first request has made is the session's, whether its answer came or not.
#[tokio::test]
async fn an_opening_whose_answer_was_lost_is_repeated_with_success() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    for detached in [false, true] {
        let mut holder = Bare::new(&etcd.url(), &format!("{name}/{detached}"), TTL).await;
        let session = SessionId::random();
        let lease = grant(&etcd, &session, TTL.as_secs());
        holder.store.open(&session, &spec(detached)).await.unwrap();
        holder.claim.key.session = session;
        holder.granted().await;
        assert_eq!(line(&etcd, holder.claim.key.name.as_str())[0].lease, lease);
        let renewal = holder.renew(LiveState::Granted).await.unwrap();
        assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    }
}

/// The waiters' lease of a session is there after its first lease has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_ends_the_other_leases_of_a_session_that_has_lost_its_first_one() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = two_clients(&etcd, &name).await;
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
