//! The effects of a renewal, its claims, and its answers.

use crate::{Case, Ttls};
use lockkeeper::store::{LiveState, Renewal, Withdrawal};

/// The renewal of a holder answers `Held`, with the token of the claim.
pub async fn a_holder_learns_that_it_holds(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let token = a.granted().await;
    assert_eq!(a.renewed().await.unwrap().token(), Some(token));
    assert_eq!(a.renewed().await.unwrap().token(), Some(token));
}

/// The renewal of a waiter answers `Queued` for every state that its client names: the store
/// answers with what it found.
pub async fn a_waiter_learns_that_it_waits(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    for state in [LiveState::Queued, LiveState::InFlight, LiveState::Granted] {
        assert_eq!(b.renewed_as(state).await.unwrap(), Renewal::Queued, "{state:?}");
    }
    a.sees(&[&a, &b], 1).await;
}

/// A renewal after the hand-off answers `Held`.
pub async fn a_grantee_learns_that_it_holds(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    a.release().await;
    let token = b.wakes_with_its_grant(seen).await;
    assert_eq!(b.renewed_as(LiveState::Queued).await.unwrap().token(), Some(token));
}

/// A holder that renews keeps the lock for any time.
pub async fn a_holder_lives_on_renewals(case: &Case) {
    let a = case.mutex("lock", case.short()).await;
    let other = case.writer("lock").await.trying();
    let token = a.granted().await;
    case.keep_alive(a.ttls().ttl * 3, &[&a]).await;
    other.busy().await;
    assert_eq!(a.held().await, token);
}

/// A waiter that renews keeps its place for any time.
pub async fn a_waiter_lives_on_renewals(case: &Case) {
    let a = case.writer("lock").await;
    let b = case.mutex("lock", case.short()).await;
    a.granted().await;
    b.queued().await;
    case.keep_alive(b.ttls().ttl * 2, &[&b]).await;
    a.sees(&[&a, &b], 1).await;
    a.release().await;
    b.granted().await;
}

/// The renewal of a claim that was never made answers `Lost`, and creates no claim.
pub async fn a_renewal_never_creates_a_claim(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    assert_eq!(a.renewed().await.unwrap(), Renewal::Lost(None));
    assert_eq!(a.renewed_as(LiveState::Queued).await.unwrap(), Renewal::Lost(None));
    a.sees(&[], 0).await;
    b.granted().await;
}

/// A late renewal does not revive a withdrawn claim.
pub async fn a_renewal_never_revives_what_was_withdrawn(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    a.release().await;
    assert_eq!(a.renewed().await.unwrap(), Renewal::Lost(None));
    a.sees(&[], 0).await;
    b.granted().await;
    assert_eq!(a.renewed().await.unwrap(), Renewal::Lost(None));
    b.sees(&[&b], 1).await;
    assert_eq!(a.withdraw().await, Withdrawal::Absent);
    b.held().await;
}

/// A late renewal does not revive an expired claim, even if no other claim came in the meantime.
pub async fn a_renewal_never_revives_what_expired(case: &Case) {
    let a = case.mutex("lock", case.short()).await;
    let b = case.writer("lock").await;
    a.granted().await;
    case.pass(a.ttls().ttl * 2).await;
    assert!(a.is_lost().await);
    b.sees(&[], 0).await;
    b.granted().await;
}

/// A claim that the store does not know and that may still be under way is neither renewed nor
/// ended.
pub async fn what_is_in_flight_is_unknown(case: &Case) {
    let [a] = case.mutexes("lock").await;
    assert_eq!(a.renewed_as(LiveState::InFlight).await.unwrap(), Renewal::Unknown);
    a.granted().await;
}

/// Each claim gets its own answer, in the order of the request.
pub async fn each_claim_is_answered_in_order(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let [held, missing, waits, in_flight] =
        ["held", "missing", "waits", "in flight"].map(|n| client.mutex(&case.name(n)));
    let other = case.writer("waits").await;
    let token = held.granted().await;
    other.granted().await;
    waits.queued().await;
    let live = [
        in_flight.live(LiveState::InFlight),
        waits.live(LiveState::Queued),
        missing.live(LiveState::Granted),
        held.live(LiveState::Granted),
    ];
    let answers = client.renew(&live).await.unwrap().claims;
    let expected = [
        Renewal::Unknown,
        Renewal::Queued,
        Renewal::Lost(None),
        Renewal::Held { token, ttl: held.ttls().ttl },
    ];
    assert_eq!(answers, expected);
    let reversed: Vec<_> = live.into_iter().rev().collect();
    let answers = client.renew(&reversed).await.unwrap().claims;
    assert!(answers.iter().eq(expected.iter().rev()), "{answers:?}");
}

/// Exactly the listed claims are renewed, where claims expire one by one.
pub async fn only_what_is_listed_is_renewed(case: &Case) {
    let client = case.client(case.short()).await;
    let [listed, forgotten] = ["listed", "forgotten"].map(|name| client.mutex(&case.name(name)));
    listed.granted().await;
    forgotten.granted().await;
    case.keep_alive(listed.ttls().ttl * 2, &[&listed]).await;
    listed.held().await;
    assert_eq!(forgotten.renewed().await.unwrap(), Renewal::Lost(None));
}

/// A session may be renewed without any claim.
pub async fn a_session_without_claims_can_be_renewed(case: &Case) {
    let client = case.client(Ttls::long()).await;
    assert!(client.renew(&[]).await.unwrap().claims.is_empty());
}

/// A healthy session proves nothing about a claim: a claim that an administrator removed is lost.
pub async fn a_healthy_session_proves_nothing(case: &Case) {
    let client = case.client(Ttls::long()).await;
    let [kept, removed] = ["kept", "removed"].map(|name| client.mutex(&case.name(name)));
    let token = kept.granted().await;
    removed.granted().await;
    removed.release().await;
    let live = [removed.live(LiveState::Granted), kept.live(LiveState::Granted)];
    let answers = client.renew(&live).await.unwrap().claims;
    assert_eq!(answers, [Renewal::Lost(None), Renewal::Held { token, ttl: kept.ttls().ttl }]);
}
