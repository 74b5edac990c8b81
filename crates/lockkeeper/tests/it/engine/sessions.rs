//! What lives and dies together.

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, LostReason, Release, SessionState};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_forgot_loses_all_its_locks_at_once() {
    let world = World::new();
    for operation in [Operation::Renew, Operation::Claim, Operation::Withdraw] {
        let party = world.party_by_session(secs(30), 0).await;
        let [a, b, c] = ["a", "b", "c"].map(|name| party.mutex(name));
        let (a, b, c) = (a.lock().await.unwrap(), b.lock().await.unwrap(), c.lock().await.unwrap());
        party.spy.once(operation, Do::Fail(ErrorKind::SessionLost));
        match operation {
            Operation::Renew => sleep(secs(11)).await,
            Operation::Claim => party.mutex("other").lock().await.unwrap().release().await.map(drop).unwrap(),
            _ => assert_eq!(c.release().await.unwrap(), Release::AlreadyLost),
        }
        for guard in [&a, &b] {
            assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::SessionExpired), "{operation:?}");
        }
        // The next one gets a new session.
        party.mutex("d").lock().await.unwrap().release().await.unwrap();
        assert_eq!(party.spy.asked(Operation::Open).len(), 2);
        drop((a, b));
        party.keeper.shutdown(secs(5)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_of_a_session_is_the_end_of_it() {
    let world = World::new();
    let party = world.party_by_session(secs(9), 0).await;
    let guards = [party.mutex("a").lock().await.unwrap(), party.mutex("b").lock().await.unwrap()];
    party.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(10)).await;
    assert_eq!(party.keeper.session().state(), SessionState::Expired);
    party.spy.no_rules();
    let next = party.mutex("c").lock().await.unwrap();
    assert_eq!(party.spy.asked(Operation::Open).len(), 2, "the old session is not gone on with");
    sleep(secs(20)).await;
    next.check().unwrap();
    assert!(guards.iter().all(|guard| guard.check().is_err()));
    assert_eq!(party.count("lost"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_exactly_once() {
    let world = World::new();
    let party = world.party(secs(3)).await;
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.always(Operation::Renew, Do::Late(secs(3)));
    sleep(secs(10)).await;
    let _ = guard.check();
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    sleep(secs(10)).await;
    assert_eq!(party.count("lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_of_what_is_gone_is_told_as_a_loss() {
    let world = World::new();
    let party = world.party(secs(30)).await;
    let guard = party.mutex("n").lock().await.unwrap();
    let lost = guard.lost();
    party.spy.rule(|asked| (asked.operation == Operation::Renew).then_some(Do::Hang));
    // Somebody has removed it behind its holder's back.
    let target = lockkeeper::store::Target::Token(guard.token().raw());
    let admin = lockkeeper::store::Store::admin(&world.store).unwrap();
    admin.evict(guard.name(), &target, lockkeeper::store::Evict::Now, "me", "stuck").await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    assert_eq!((party.count("lost"), party.count("released")), (1, 0));
    assert_eq!(lost.await, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_is_closed() {
    let world = World::new();
    let party = world.party(secs(9)).await;
    party.mutex("n").lock().await.unwrap().release().await.unwrap();
    sleep(secs(30)).await;
    assert_eq!(party.spy.asked(Operation::Close).len(), 1);
    let guard = party.mutex("n").lock().await.unwrap();
    sleep(secs(60)).await;
    guard.check().unwrap();
    assert_eq!(party.spy.asked(Operation::Open).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_leases_session_ends_with_it() {
    let world = World::new();
    let party = world.party(secs(60)).await;
    party.mutex("n").lock().lease(secs(9)).await.unwrap().release().await.unwrap();
    assert_eq!(party.spy.asked(Operation::Close).len(), 1);
    let holder = party.mutex("n").lock().await.unwrap();
    assert!(party.mutex("n").try_lock().lease(secs(9)).await.unwrap().is_none());
    sleep(millis(1)).await;
    assert_eq!(party.spy.asked(Operation::Close).len(), 2);
    holder.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_danger_is_over_when_nobody_is_in_it_any_more() {
    let world = World::new();
    let party = world.party(secs(9)).await;
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    let mut session = party.keeper.session();
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    guard.release().await.unwrap();
    party.spy.no_rules();
    assert_eq!(session.changed().await, SessionState::Valid);
}

#[tokio::test(start_paused = true)]
async fn a_delay_longer_than_the_ttl_is_kept_by_a_keeper_that_goes_on() {
    let world = World::new();
    let (party, start) = (world.party_with(|b| b.ttl(secs(2)).lock_delay(secs(20))).await, world.now());
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop(guard);
    is_taken_not_before(&world, start + secs(21)).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_by_a_keeper_that_is_shut_down() {
    let world = World::new();
    let (party, start) = (world.party_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop(guard);
    party.keeper.shutdown(secs(1)).await.unwrap();
    is_taken_not_before(&world, start + secs(13)).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_by_a_keeper_that_is_dropped() {
    let world = World::new();
    let (party, start) = (world.party_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = party.mutex("n").lock().await.unwrap();
    party.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop((guard, party));
    is_taken_not_before(&world, start + secs(13)).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_the_delay_of_what_is_held_run_out() {
    let world = World::new();
    let (party, start) = (world.party_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = party.mutex("n").lock().await.unwrap();
    party.keeper.shutdown(secs(1)).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Shutdown));
    is_taken_not_before(&world, start + secs(13)).await;
}

/// And soon after that, on a store that has nothing to do but to wait.
async fn is_taken_not_before(world: &World, earliest: lockkeeper::time::Instant) {
    let next = world.party(secs(30)).await.mutex("n").lock().await.unwrap();
    let now = world.now();
    assert!(now >= earliest, "{:?} too early", earliest.saturating_since(now));
    assert!(now <= earliest + secs(3), "{:?} late", now.saturating_since(earliest));
    next.release().await.unwrap();
}

/// What was lost while it was held is withdrawn where its session lives on, when its delay is over.
#[tokio::test(start_paused = true)]
async fn what_lingers_in_a_session_is_withdrawn_in_the_end() {
    let world = World::new();
    let mut can = lockkeeper::store::Capabilities::full();
    can.expiry = lockkeeper::store::Expiry::Session { proof_lag: 0, resumable: false };
    let party = world.party_on(can, None, |b| b.ttl(secs(9)).lock_delay(secs(5))).await;
    let guard = party.mutex("n").lock().max_hold(secs(2)).await.unwrap();
    let id = party.spy.last(Operation::Claim).ids;
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    drop(guard);
    sleep(secs(4)).await;
    assert_eq!(party.spy.asked(Operation::Withdraw).len(), 0);
    sleep(secs(11)).await;
    assert_eq!(party.spy.last(Operation::Withdraw).ids, id);
}
