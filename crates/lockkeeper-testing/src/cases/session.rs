//! Sessions: how they open and close, and what ends with them.

use crate::{Case, Client, Ttls};
use lockkeeper::ErrorKind;
use lockkeeper::store::{LiveState, SessionId, SessionSpec, TOMBSTONE_MIN};

/// The close of a session frees its locks and removes its waiters, whether it lists them or not,
/// and wakes the claims that can go on.
pub async fn closing_frees_everything(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let (held, waiting) = (client.mutex(&case.name("x")), client.mutex(&case.name("y")));
    let (next_x, first_y, next_y) =
        (case.writer("x").await, case.writer("y").await, case.writer("y").await);
    held.granted().await;
    first_y.granted().await;
    waiting.queued().await;
    let seen = next_x.queued().await;
    next_y.queued().await;
    let listed = [held.live(LiveState::Granted)];
    let close = async { client.store.close(&client.session, &listed).await.unwrap() };
    tokio::join!(next_x.wakes_with_its_grant(seen), close);
    first_y.sees(&[&first_y, &next_y], 1).await;
}

/// A session may be closed twice, and without claims.
pub async fn closing_twice_is_fine(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let [other] = case.mutexes("lock").await;
    for _ in 0..2 {
        client.store.close(&client.session, &[]).await.unwrap();
    }
    other.granted().await;
    client.store.close(&client.session, &[]).await.unwrap();
    other.held().await;
}

/// The close of one session does not touch other sessions, even of the same client.
pub async fn other_sessions_are_left_alone(case: &Case) {
    let [a, b] = case.mutexes("x").await;
    let [other] = case.mutexes("y").await;
    a.granted().await;
    other.granted().await;
    b.queued().await;
    a.client.store.close(&a.client.session, &[]).await.unwrap();
    b.granted().await;
    other.held().await;
    b.sees(&[&b], 1).await;
}

/// Two sessions of one connection are separate: the close of one leaves the claims of the other.
pub async fn a_connection_may_have_two_sessions(case: &Case) {
    let first = case.client(Ttls::long()).await;
    let second = first.another_session().await;
    let (a, b) = (first.mutex(&case.name("x")), second.mutex(&case.name("y")));
    a.granted().await;
    b.granted().await;
    first.store.close(&first.session, &[]).await.unwrap();
    a.sees(&[], 0).await;
    b.held().await;
}

/// An unknown session cannot claim or renew, on stores whose claims belong to sessions.
pub async fn an_unknown_session_is_lost(case: &Case) {
    let [mut a, b] = case.mutexes("lock").await;
    a.client.session = SessionId::random();
    a.claim.key.session = a.client.session.clone();
    a.refused(ErrorKind::SessionLost).await;
    assert_eq!(a.renewed().await.unwrap_err().kind(), ErrorKind::SessionLost);
    b.sees(&[], 0).await;
}

/// A closed session can no longer claim: a claim that arrives late gets `SessionLost`.
pub async fn a_closed_session_is_lost(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.client.store.close(&a.client.session, &[]).await.unwrap();
    a.refused(ErrorKind::SessionLost).await;
    assert_eq!(a.renewed().await.unwrap_err().kind(), ErrorKind::SessionLost);
    b.granted().await;
}

/// A session that was not renewed is lost with all its claims, and stays lost.
pub async fn an_expired_session_is_lost(case: &Case) {
    let a = case.mutex("lock", case.short()).await;
    let b = case.writer("lock").await;
    a.granted().await;
    case.pass(a.ttls().ttl * 2).await;
    for _ in 0..2 {
        assert_eq!(a.renewed().await.unwrap_err().kind(), ErrorKind::SessionLost);
        a.with_new_id().refused(ErrorKind::SessionLost).await;
    }
    b.granted().await;
}

/// Two openings with one id, as after a lost answer, open one session: the session keeps all its
/// claims.
pub async fn the_same_id_is_the_same_session(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let (held, waiting) = (client.mutex(&case.name("x")), client.mutex(&case.name("y")));
    let holder = case.writer("y").await;
    let token = held.granted().await;
    holder.granted().await;
    waiting.clone().trying().busy().await;
    client.opened_again().await.unwrap();
    assert_eq!(held.held().await, token);
    let later = client.mutex(&case.name("z"));
    later.granted().await;
    client.opened_again().await.unwrap();
    later.release().await;
    client.close(&[]).await;
    held.sees(&[], 0).await;
}

/// A session that was closed is not opened again: its id is spent.
pub async fn a_closed_session_is_not_opened_again(case: &Case) {
    let [held, next] = case.mutexes("lock").await;
    held.granted().await;
    held.client.close(&[]).await;
    for _ in 0..2 {
        assert_eq!(held.client.opened_again().await.unwrap_err().kind(), ErrorKind::SessionLost);
    }
    next.granted().await;
    assert!(held.is_lost().await);
}

/// A session that was closed is not opened again for as long as a tombstone lasts.
pub async fn a_closed_session_is_remembered_for_its_time(case: &Case) {
    let client = case.client(Ttls::long()).await;
    client.close(&[]).await;
    case.pass(TOMBSTONE_MIN - std::time::Duration::from_secs(1)).await;
    assert_eq!(client.opened_again().await.unwrap_err().kind(), ErrorKind::SessionLost);
}

/// A session keeps the durations of its first opening. A repeated opening with other durations is
/// refused, and changes nothing.
pub async fn other_durations_are_refused(case: &Case) {
    let held = case.mutex("lock", Ttls::long()).await;
    let token = held.granted().await;
    let spec = held.client.spec();
    let longer = SessionSpec { ttl: spec.ttl * 2, ..spec.clone() };
    let detached = SessionSpec { detached: true, ..spec };
    for other in [longer, detached] {
        let error = held.client.store.open(&held.client.session, &other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(held.held().await, token);
}

/// A tombstone lasts although the session of its claim was closed.
pub async fn a_tombstone_outlives_a_close(case: &Case) {
    let [a, mut late] = case.mutexes("lock").await;
    a.granted().await;
    a.withdraw_unsettled().await;
    a.client.close(&[]).await;
    late.claim.key.id = a.claim.key.id;
    late.gone().await;
    late.sees(&[], 0).await;
}

/// Renews a session without its claims, if the store answers.
async fn renewed(client: &Client) {
    if let Err(error) = client.renew(&[]).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// The claims of a session that its renewals do not list are leftovers, and are removed.
pub async fn leftovers_are_removed(case: &Case) {
    let client = case.client(case.short()).await;
    let leftover = client.mutex(&case.name("lock"));
    let next = case.writer("lock").await;
    leftover.granted().await;
    // One list may be old, so a claim that it lacks is not removed yet.
    renewed(&client).await;
    next.clone().trying().busy().await;
    let waiting = tokio::spawn(async move { next.with_new_id().acquire().await });
    while !waiting.is_finished() {
        renewed(&client).await;
        case.pass(case.short().wait_ttl / 4).await;
    }
    waiting.await.unwrap();
}

/// The store grants a ttl in its range.
pub async fn the_granted_ttl_is_in_range(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let can = client.store.capabilities();
    let spec = SessionSpec::new(Ttls::long().ttl, Ttls::long().lock_delay);
    let opened = client.store.open(&SessionId::random(), &spec).await.unwrap();
    assert!(can.ttl_min <= opened.ttl && opened.ttl <= can.ttl_max, "{:?}", opened.ttl);
}

/// A ttl or a lock-delay out of the store's range is refused, and the error names the range.
pub async fn what_is_out_of_range_is_refused(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let can = client.store.capabilities();
    let none = std::time::Duration::ZERO;
    let mut all = vec![
        (can.ttl_min / 2, none),
        (can.ttl_max * 2, none),
        (can.ttl_min, can.lock_delay_max * 2 + can.ttl_max),
    ];
    if can.keep_max < can.ttl_max + can.lock_delay_max {
        all.push((can.ttl_max, can.lock_delay_max));
    }
    for (ttl, lock_delay) in all {
        let error = client
            .store
            .open(&SessionId::random(), &SessionSpec::new(ttl, lock_delay))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{ttl:?} + {lock_delay:?}: {error}");
        assert!(!error.is_retryable());
    }
}
