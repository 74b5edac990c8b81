//! Sessions whose first lease has the id that a hash of the session's id gives it.

use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::store::{LiveState, Renewal, SessionId, SessionSpec, Store as _};
use lockkeeper_live::Etcd;
use serde_json::json;

use super::{Bare, lease_of, line, name, store};

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
        let leases = [grant(&etcd, &crowded, TTL.as_secs()), grant(&etcd, &longer, 2 * TTL.as_secs())];
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
    etcd.control().put(&place, r#"{"lockkeeper":1,"ttl_us":1,"wait_ttl_us":1,"lock_delay_us":1}"#).unwrap();
    let error = store.open(&session, &spec(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert_eq!(store.renew(&session, &[]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert!(etcd.control().get(&place).unwrap().is_some());
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
