//! One detached session that several clients use at once. Most of the clients did not open the
//! session.

use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::ErrorKind;
use lockkeeper::store::{
    Amend, Amended, Evict, LiveState, SessionSpec, Target, Verdict, Withdrawal,
};

/// A minimum hold that outlasts its case.
const LONG: Duration = Duration::from_secs(3600);

/// Two clients open a session with one id, and both use one session.
pub async fn two_clients_open_one_session(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let held = a.mutex(&case.name("lock"));
    let token = held.granted().await;
    let b = case.beside(&a).await;
    b.opened_again().await.unwrap();
    assert_eq!(held.through(&b).held().await, token);
    assert_eq!(held.held().await, token);
    held.through(&b).release().await;
    assert!(held.is_lost().await);
}

/// A detached session is not opened as one that belongs to a client, not even by a client that has
/// not used it.
pub async fn a_detached_session_is_not_opened_as_another(case: &Case) {
    let (a, other) = (case.detached(Ttls::long()).await, case.writer("lock").await.trying());
    let held = a.mutex(&case.name("lock"));
    let token = held.granted().await;
    let b = case.beside(&a).await;
    let error =
        b.store.open(&b.session, &SessionSpec { detached: false, ..b.spec() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(held.through(&b).held().await, token);
    other.busy().await;
}

/// A client that did not open the session renews a claim that another client made.
pub async fn a_claim_is_renewed_through_another_client(case: &Case) {
    let (a, next) = (case.detached(Ttls::long()).await, case.writer("lock").await);
    let held = a.mutex(&case.name("lock"));
    let token = held.granted().await;
    let b = case.beside(&a).await;
    assert_eq!(held.through(&b).held().await, token);
    next.queued().await;
    assert_eq!(held.through(&b).held().await, token);
    assert_eq!(held.held().await, token);
}

/// A client claims in a session of another client. The client that opened the session renews and
/// releases the claim.
pub async fn a_client_claims_in_the_session_of_another(case: &Case) {
    let (a, next) = (case.detached(Ttls::long()).await, case.writer("lock").await);
    let theirs = case.beside(&a).await.mutex(&case.name("lock"));
    let token = theirs.granted().await;
    assert_eq!(theirs.through(&a).held().await, token);
    next.queued().await;
    assert_eq!(theirs.through(&a).withdraw().await, Withdrawal::Removed);
    next.granted().await;
    assert!(theirs.is_lost().await);
}

/// A waiting claim gets the lock through another client than the client that sent the claim first.
pub async fn a_claim_goes_on_waiting_through_another_client(case: &Case) {
    let (a, holder) = (case.detached(Ttls::long()).await, case.writer("lock").await);
    holder.granted().await;
    let waiting = a.mutex(&case.name("lock"));
    waiting.queued().await;
    let there = waiting.through(&case.beside(&a).await);
    let acquiring = there.clone();
    let acquired = tokio::spawn(async move { acquiring.acquire().await });
    holder.sees(&[&holder, &waiting], 1).await;
    holder.release().await;
    let token = acquired.await.unwrap();
    assert_eq!(there.held().await, token);
    assert_eq!(waiting.held().await, token);
}

/// A client closes a session that it neither opened nor used, and the listed claims are gone.
pub async fn a_close_through_another_client_frees_what_it_lists(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let (held, waiting) = (a.mutex(&case.name("x")), a.mutex(&case.name("y")));
    let (next, holder) = (case.writer("x").await, case.writer("y").await);
    held.granted().await;
    holder.granted().await;
    waiting.queued().await;
    let listed = [held.live(LiveState::Granted), waiting.live(LiveState::Queued)];
    case.beside(&a).await.close(&listed).await;
    next.granted().await;
    holder.sees(&[&holder], 1).await;
    assert!(held.is_lost().await);
}

/// If claims live as long as their session, the close of another client ends all claims, listed or
/// not.
pub async fn a_close_through_another_client_frees_everything(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let (held, waiting) = (a.mutex(&case.name("x")), a.mutex(&case.name("y")));
    let (next, holder) = (case.writer("x").await, case.writer("y").await);
    held.granted().await;
    holder.granted().await;
    waiting.queued().await;
    case.beside(&a).await.close(&[]).await;
    next.granted().await;
    holder.sees(&[&holder], 1).await;
    assert!(held.is_lost().await);
    waiting.with_new_id().refused(ErrorKind::SessionLost).await;
}

/// A session that one client has closed is not opened again through any client.
pub async fn a_session_is_closed_for_all_clients(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let [b, c] = [case.beside(&a).await, case.beside(&a).await];
    b.opened_again().await.unwrap();
    b.close(&[]).await;
    for client in [&a, &b, &c] {
        assert_eq!(client.opened_again().await.unwrap_err().kind(), ErrorKind::SessionLost);
    }
}

/// A detached session outlives the process that opened it, with the claims of that process.
pub async fn a_crash_of_the_opener_ends_nothing(case: &Case) {
    let (a, other) = (case.detached(Ttls::long()).await, case.writer("lock").await.trying());
    let held = a.mutex(&case.name("lock"));
    let token = held.granted().await;
    let there = held.through(&case.beside(&a).await);
    let store = std::sync::Arc::clone(&a.store);
    drop((a, held));
    case.harness().crash(store).await;
    other.busy().await;
    assert_eq!(there.held().await, token);
    there.release().await;
    other.with_new_id().granted().await;
}

/// A claim that another client sends again with other numbers is in the state in which it was, and
/// stays as it was.
pub async fn a_claim_sent_again_with_other_numbers_stays_as_it_is(case: &Case) {
    let mut ahead = case.reader("lock").await;
    ahead.claim.meta.epoch = 5;
    ahead.granted().await;
    let a = case.detached(Ttls::long()).await;
    let [mut held, mut first, mut second] =
        [a.reader(&case.name("lock")), a.mutex(&case.name("lock")), a.mutex(&case.name("lock"))];
    for claim in [&mut held, &mut first, &mut second] {
        claim.claim.meta.epoch = 5;
    }
    let token = held.granted().await;
    first.queued().await;
    second.queued().await;
    let b = case.beside(&a).await;
    let again = |epoch, capacity| {
        let mut again = held.through(&b);
        (again.claim.meta.epoch, again.claim.capacity) = (epoch, capacity);
        again
    };
    for again in [again(0, u32::MAX), again(5, 3)] {
        let verdict = again.resend().await;
        assert!(
            matches!(verdict, Verdict::Granted { token: found, .. } if found == token),
            "{verdict:?}"
        );
    }
    for waiting in [&first, &second] {
        let verdict = waiting.through(&b).behind_at_most(1).resend().await;
        assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
    }
    assert_eq!(held.held().await, token);
    ahead.sees(&[&ahead, &held, &first, &second], 2).await;
}

/// A kept claim belongs to no client, so no claim replaces it, through whichever client.
pub async fn what_is_kept_is_not_replaced_through_another_client(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let b = case.beside(&a).await;
    for (at, (holder, releaser)) in [(&a, &a), (&a, &b)].into_iter().enumerate() {
        let name = case.name(&format!("lock{at}"));
        let held = holder.mutex(&name);
        held.granted_for(LONG).await;
        held.through(releaser).release().await;
        for client in [&a, &b] {
            client.mutex(&name).replacing(&held).trying().busy().await;
        }
        case.writer(&format!("lock{at}")).await.trying().busy().await;
    }
}

/// A claim that was broken is replaced through no client.
pub async fn what_is_broken_is_not_replaced_through_another_client(case: &Case) {
    let a = case.detached(Ttls::long()).await;
    let b = case.beside(&a).await;
    let held = a.mutex(&case.name("lock"));
    held.granted().await;
    let admin = case.writer("lock").await;
    let by_id = Target::Id(held.id());
    admin
        .client
        .store
        .admin()
        .unwrap()
        .evict(&held.claim.key.name, &by_id, Evict::Mark, "op", "stuck")
        .await
        .unwrap();
    for client in [&a, &b] {
        client.mutex(&held.claim.key.name).replacing(&held).trying().busy().await;
    }
}

/// A claim takes the place of another client's claim, with the minimum hold of that claim.
pub async fn a_claim_is_replaced_through_another_client(case: &Case) {
    let (a, other) = (case.detached(Ttls::long()).await, case.writer("lock").await.trying());
    let held = a.mutex(&case.name("lock"));
    let token = held.granted_for(LONG).await;
    let next = case.beside(&a).await.mutex(&held.claim.key.name).replacing(&held).trying();
    assert!(next.granted().await > token);
    assert!(held.is_lost().await);
    next.release().await;
    other.busy().await;
}

/// The close of another client keeps what has a minimum hold, listed or not, and however long it
/// is.
pub async fn a_close_through_another_client_keeps_a_minimum_hold(case: &Case) {
    let other = case.client(Ttls::long()).await;
    for (at, (is_listed, hold)) in
        [(false, 20), (true, 20), (false, 3600), (true, 3600)].into_iter().enumerate()
    {
        let (a, name) = (case.detached(Ttls::long()).await, case.name(&format!("lock{at}")));
        let held = a.mutex(&name);
        held.granted().await;
        assert_eq!(held.amend(Amend::MinHold(Duration::from_secs(hold))).await, Amended::Done);
        let listed = [held.live(LiveState::Granted)];
        let live = if is_listed { &listed[..] } else { &[] };
        case.beside(&a).await.close(live).await;
        other.mutex(&name).trying().busy().await;
    }
}
