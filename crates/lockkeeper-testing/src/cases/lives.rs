//! The lifetimes of sessions. The end of a session, and the renewals of several clients, affect
//! claims and tombstones.

use crate::{Case, Client, Ttls};
use lockkeeper::ErrorKind;
use lockkeeper::store::{Live, LiveState, Renewal};

/// Renews these claims, if the store answers.
async fn renewed(client: &Client, live: &[Live]) {
    if let Err(error) = client.renew(live).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// A repeated opening starts the lease of its session again.
pub async fn a_repeated_opening_starts_its_life_again(case: &Case) {
    let held = case.mutex("lock", case.short()).await;
    let other = case.writer("lock").await.trying();
    let token = held.granted().await;
    for _ in 0..4 {
        case.pass(case.short().ttl * 3 / 5).await;
        held.client.opened_again().await.unwrap();
    }
    other.busy().await;
    assert_eq!(held.held().await, token);
}

/// A session that has expired may be opened again, but none of its claims comes back.
pub async fn an_expired_session_comes_back_without_its_claims(case: &Case) {
    let (dead, next) = (case.mutex("lock", case.short()).await, case.writer("lock").await);
    dead.granted().await;
    case.pass(dead.ttls().ttl * 2).await;
    let token = next.granted().await;
    if let Err(error) = dead.client.opened_again().await {
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    }
    assert!(dead.is_lost().await);
    assert_eq!(next.held().await, token);
    next.sees(&[&next], 1).await;
}

/// A tombstone lasts although the session of its claim has expired.
pub async fn a_tombstone_outlives_the_life_of_its_session(case: &Case) {
    let (a, mut late) = (case.mutex("lock", case.short()).await, case.writer("lock").await);
    a.granted().await;
    a.withdraw_unsettled().await;
    case.pass(a.ttls().ttl * 3).await;
    late.claim.key.id = a.claim.key.id;
    late.gone().await;
    late.sees(&[], 0).await;
}

/// A claim lives on the renewals of a client that made neither the claim nor the session.
pub async fn a_claim_lives_on_another_clients_renewals(case: &Case) {
    let (a, other) = (case.detached(case.short()).await, case.writer("lock").await.trying());
    let held = a.mutex(&case.name("lock"));
    let token = held.granted().await;
    let b = held.through(&case.beside(&a).await);
    case.keep_alive(case.short().ttl * 3, &[&b]).await;
    other.busy().await;
    assert_eq!(b.held().await, token);
    assert_eq!(held.held().await, token, "the client that made it finds it too");
}

/// A claim that waits lives on the renewals of another client.
pub async fn a_waiter_lives_on_another_clients_renewals(case: &Case) {
    let holder = case.writer("lock").await;
    let a = case.detached(Ttls { wait_ttl: case.short().wait_ttl, ..Ttls::long() }).await;
    holder.granted().await;
    let waiting = a.mutex(&case.name("lock"));
    waiting.queued().await;
    let there = waiting.through(&case.beside(&a).await);
    case.keep_alive(case.short().wait_ttl * 3, &[&there]).await;
    holder.sees(&[&holder, &waiting], 1).await;
    holder.release().await;
    assert!(there.acquire().await > 0);
}

/// Two clients renew one session, and each lists its own claims only: none of the claims is lost.
pub async fn two_lists_lose_nothing(case: &Case) {
    let a = case.detached(case.short()).await;
    let b = case.beside(&a).await;
    let (first, second) = (a.mutex(&case.name("x")), b.mutex(&case.name("y")));
    let tokens = [first.granted().await, second.granted().await];
    let (start, whole) = (case.now(), case.short().ttl);
    while case.since(start) < whole * 6 {
        renewed(&a, &[first.live(LiveState::Granted)]).await;
        case.pass(whole / 8).await;
        renewed(&b, &[second.live(LiveState::Granted)]).await;
        case.pass(whole / 8).await;
    }
    assert_eq!([first.held().await, second.held().await], tokens);
    let live = [first.live(LiveState::Granted), second.live(LiveState::Granted)];
    let answers = a.renew(&live).await.unwrap().claims;
    assert_eq!(answers.iter().map(Renewal::token).collect::<Vec<_>>(), tokens.map(Some));
}

/// A claim that no client lists any more is a leftover, and is removed. Any client may have made
/// it.
pub async fn what_no_client_lists_is_removed(case: &Case) {
    let a = case.detached(case.short()).await;
    let b = case.beside(&a).await;
    let next = case.writer("lock").await;
    b.mutex(&case.name("lock")).granted().await;
    renewed(&a, &[]).await;
    next.clone().trying().busy().await;
    let waiting = tokio::spawn(async move { next.with_new_id().acquire().await });
    while !waiting.is_finished() {
        for client in [&a, &b] {
            renewed(client, &[]).await;
            case.pass(case.short().wait_ttl / 8).await;
        }
    }
    waiting.await.unwrap();
}
