//! Locks that live and end together with their session.

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, LostReason, SessionState};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_forgot_loses_all_its_locks_at_once() {
    let world = World::new();
    for operation in [Operation::Renew, Operation::Claim, Operation::Withdraw] {
        let test_client = world.test_client_by_session(secs(30), 0).await;
        let [a, b, c] = ["a", "b", "c"].map(|name| test_client.mutex(name));
        let (a, b, c) = (a.lock().await.unwrap(), b.lock().await.unwrap(), c.lock().await.unwrap());
        test_client.spy.once(operation, Do::Fail(ErrorKind::SessionLost));
        match operation {
            Operation::Renew => sleep(secs(11)).await,
            Operation::Claim => {
                test_client.mutex("other").lock().await.unwrap().release().await.map(drop).unwrap()
            }
            _ => assert_eq!(c.release().await.unwrap_err().kind(), ErrorKind::Lost),
        }
        for guard in [&a, &b] {
            assert_eq!(
                guard.check().unwrap_err().lost_reason(),
                Some(&LostReason::SessionExpired),
                "{operation:?}"
            );
        }
        // The next attempt gets a new session.
        test_client.mutex("d").lock().await.unwrap().release().await.unwrap();
        assert_eq!(test_client.spy.asked(Operation::Open).len(), 2);
        drop((a, b));
        test_client.keeper.shutdown(secs(5)).await.unwrap();
    }
}

/// For example, the file of the store was replaced, and the new file grants the same locks to
/// others.
#[tokio::test(start_paused = true)]
async fn a_store_that_reports_its_end_ends_all_holds_at_once() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(30), 0).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Closed));
    sleep(secs(11)).await;
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::SessionExpired));
}

#[tokio::test(start_paused = true)]
async fn one_deadline_of_a_session_is_the_end_of_it() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(9), 0).await;
    let guards = [
        test_client.mutex("a").lock().await.unwrap(),
        test_client.mutex("b").lock().await.unwrap(),
    ];
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(10)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Expired);
    test_client.spy.no_rules();
    let next = test_client.mutex("c").lock().await.unwrap();
    assert_eq!(
        test_client.spy.asked(Operation::Open).len(),
        2,
        "the old session is not gone on with"
    );
    sleep(secs(20)).await;
    next.check().unwrap();
    for guard in guards {
        assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
    }
    assert_eq!(test_client.count("lost"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_exactly_once() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Late(secs(3)));
    sleep(secs(10)).await;
    let _ = guard.check();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    sleep(secs(10)).await;
    assert_eq!(test_client.count("lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_of_what_is_gone_is_reported_as_a_loss() {
    released_after_its_removal(
        false,
        &LostReason::Removed { by: "me".into(), reason: "stuck".into() },
    )
    .await;
}

/// A release waits for the reason of a removal for a second, and no longer.
#[tokio::test(start_paused = true)]
async fn a_release_of_what_is_gone_does_not_wait_for_the_reason() {
    released_after_its_removal(true, &LostReason::Forgotten).await;
}

async fn released_after_its_removal(hangs: bool, because: &LostReason) {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let lost = guard.lost();
    test_client
        .spy
        .rule(move |asked| (hangs && asked.operation == Operation::Renew).then_some(Do::Hang));
    // Another client has removed the lock without a report to its holder.
    let target = lockkeeper::store::Target::Token(guard.token().raw());
    let admin = lockkeeper::store::Store::admin(&world.store).unwrap();
    admin.evict(guard.name(), &target, lockkeeper::store::Evict::Now, "me", "stuck").await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!((test_client.count("lost"), test_client.count("released")), (1, 0));
    assert_eq!(&lost.await, because);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_is_closed() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    sleep(secs(30)).await;
    assert_eq!(test_client.spy.asked(Operation::Close).len(), 1);
    let guard = test_client.mutex("n").lock().await.unwrap();
    sleep(secs(60)).await;
    guard.check().unwrap();
    assert_eq!(test_client.spy.asked(Operation::Open).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_leases_session_ends_with_it() {
    let world = World::new();
    let test_client = world.test_client(secs(60)).await;
    test_client.mutex("n").lock().lease(secs(9)).await.unwrap().release().await.unwrap();
    assert_eq!(test_client.spy.asked(Operation::Close).len(), 1);
    let holder = test_client.mutex("n").lock().await.unwrap();
    assert!(test_client.mutex("n").try_lock().lease(secs(9)).await.unwrap().is_none());
    sleep(millis(1)).await;
    assert_eq!(test_client.spy.asked(Operation::Close).len(), 2);
    holder.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_danger_is_over_when_nobody_is_in_it_any_more() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    let mut session = test_client.keeper.session();
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    guard.release().await.unwrap();
    test_client.spy.no_rules();
    assert_eq!(session.changed().await, SessionState::Valid);
}

#[tokio::test(start_paused = true)]
async fn a_living_keeper_keeps_a_delay_longer_than_the_ttl() {
    let world = World::new();
    let (test_client, start) =
        (world.test_client_with(|b| b.ttl(secs(2)).lock_delay(secs(20))).await, world.now());
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop(guard);
    is_taken_not_before(&world, start + secs(21)).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_by_a_keeper_that_is_shut_down() {
    let world = World::new();
    let (test_client, start) =
        (world.test_client_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop(guard);
    test_client.keeper.shutdown(secs(1)).await.unwrap();
    is_taken_not_before(&world, start + secs(13)).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_by_a_keeper_that_is_dropped() {
    let world = World::new();
    let (test_client, start) =
        (world.test_client_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.lost().await;
    drop((guard, test_client));
    is_taken_not_before(&world, start + secs(13)).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_the_delay_of_what_is_held_run_out() {
    let world = World::new();
    let (test_client, start) =
        (world.test_client_with(|b| b.ttl(secs(9)).lock_delay(secs(5))).await, world.now());
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.keeper.shutdown(secs(1)).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Shutdown));
    is_taken_not_before(&world, start + secs(13)).await;
}

/// Asserts that the lock is taken after `earliest`, and soon after it, since the store does nothing
/// else.
async fn is_taken_not_before(world: &World, earliest: lockkeeper::time::Instant) {
    let next = world.test_client(secs(30)).await.mutex("n").lock().await.unwrap();
    let now = world.now();
    assert!(now >= earliest, "{:?} too early", earliest.saturating_since(now));
    assert!(now <= earliest + secs(3), "{:?} late", now.saturating_since(earliest));
    next.release().await.unwrap();
}

/// If the session lives on, the claim of a lost lock is withdrawn when its delay is over.
#[tokio::test(start_paused = true)]
async fn what_lingers_in_a_session_is_withdrawn_in_the_end() {
    let world = World::new();
    let mut can = lockkeeper::store::Capabilities::full();
    can.expiry = lockkeeper::store::Expiry::Session { proof_lag: 0 };
    can.resumable = false;
    let test_client = world.test_client_on(can, None, |b| b.ttl(secs(9)).lock_delay(secs(5))).await;
    let guard = test_client.mutex("n").lock().max_hold(secs(2)).await.unwrap();
    let id = test_client.spy.last(Operation::Claim).ids;
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    drop(guard);
    sleep(secs(4)).await;
    assert_eq!(test_client.spy.asked(Operation::Withdraw).len(), 0);
    sleep(secs(11)).await;
    assert_eq!(test_client.spy.last(Operation::Withdraw).ids, id);
}

/// No renewal ever failed, as in a process that was stopped for longer than its lease.
#[tokio::test(start_paused = true)]
async fn a_session_is_valid_again_when_a_lock_is_acknowledged_after_an_expiry() {
    let test_client = World::new().test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.once(Operation::Renew, Do::Slow(millis(10)));
    let mut session = test_client.keeper.session();
    tokio::time::advance(secs(31)).await;
    assert_eq!(session.changed().await, SessionState::Expired);
    drop(guard);
    let _next = test_client.mutex("n").lock().await.unwrap();
    sleep(secs(20)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
}

/// A callback takes long for a loss, and another task locks meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_opened_while_losses_are_reported_is_valid() {
    let world = World::real();
    let (lost, is_lost) = std::sync::mpsc::channel();
    let (locked, is_locked) = std::sync::mpsc::channel::<()>();
    let is_locked = std::sync::Mutex::new(is_locked);
    let mut can = lockkeeper::store::Capabilities::full();
    can.expiry = lockkeeper::store::Expiry::Session { proof_lag: 0 };
    can.resumable = false;
    let test_client = world
        .test_client_on(can, None, |b| {
            b.ttl(secs(30)).on_event(move |event| {
                if matches!(event, lockkeeper::Event::Lost { .. }) {
                    lost.send(()).unwrap();
                    is_locked.lock().unwrap().recv().unwrap();
                }
            })
        })
        .await;
    let guard = test_client.mutex("a").lock().await.unwrap();
    test_client.spy.once(Operation::Claim, Do::Fail(ErrorKind::SessionLost));
    // The claim of "b" finds that the session is over, and reports the loss of the other lock.
    let finding = tokio::spawn(std::future::IntoFuture::into_future(test_client.mutex("b").lock()));
    tokio::task::spawn_blocking(move || is_lost.recv().unwrap()).await.unwrap();
    let next = test_client.mutex("c").lock().await.unwrap();
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
    locked.send(()).unwrap();
    drop(finding.await.unwrap().unwrap());
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
    next.check().unwrap();
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_holds_nothing_is_renewed_until_it_is_given_up() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    sleep(secs(20)).await;
    guard.release().await.unwrap();
    // The time is longer than the last renewal of the session proves, and shorter than the ttl for
    // which the keeper keeps an empty session.
    sleep(secs(29)).await;
    sleep(millis(900)).await;
    test_client.mutex("n").lock().await.unwrap().release().await.unwrap();
    assert_eq!(test_client.spy.asked(Operation::Open).len(), 1);
}

/// The lease of one lock expired, and no renewal failed. So the next renewal of another lock makes
/// the session valid again.
#[tokio::test(start_paused = true)]
async fn an_end_without_a_failed_renewal_is_not_reported_after_the_next_one() {
    let test_client = World::new().test_client(secs(30)).await;
    let kept = test_client.mutex("kept").lock().await.unwrap();
    test_client.spy.rule(|asked| {
        let of_the_other = asked.names.iter().any(|name| name.as_str() == "left out");
        (asked.operation == Operation::Renew && of_the_other).then(|| Do::Answer(Vec::new()))
    });
    let left_out = test_client.mutex("left out").ttl(secs(3)).lock().await.unwrap();
    assert_eq!(left_out.lost().await, LostReason::Expired);
    sleep(millis(1)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Expired);
    sleep(secs(12)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
    kept.release().await.unwrap();
}
