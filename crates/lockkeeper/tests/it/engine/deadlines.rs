//! The instant from which a deadline counts, and the end of a hold at its deadline.

use std::future::IntoFuture;

use lockkeeper::layer::Operation;
use lockkeeper::store::Capabilities;
use lockkeeper::store::{Renewal, Verdict};
use lockkeeper::time::believed;
use lockkeeper::{ErrorKind, Guard, LostReason, SessionState};
use tokio::time::sleep;

use super::spy::{Do, TestClient, World, millis, secs};

/// Asserts that the guard does not report the lock as held after `end`.
fn is_valid_until_at_most(world: &World, guard: &Guard, end: lockkeeper::time::Instant) {
    let until = world.now() + guard.remaining();
    assert!(until <= end, "{:?} too long", until.saturating_since(end));
}

/// A guard that holds "n", and an attempt of `test_client` in line for it. All renewals of
/// `test_client` fail from here on.
async fn in_line_without_renewals(
    world: &World,
    test_client: &TestClient,
) -> (Guard, tokio::task::JoinHandle<Guard>) {
    let holder = world.test_client(secs(60)).await;
    let guard = holder.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    let lock = test_client.mutex("n").lock().into_future();
    let waiting = tokio::spawn(async move { lock.await.unwrap() });
    sleep(millis(1)).await;
    (guard, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_grants_deadline_counts_from_the_sending_of_its_claim() {
    let world = World::new();
    let test_client = world.test_client(secs(10)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(3)));
    let guard = test_client.mutex("n").lock().await.unwrap();
    is_valid_until_at_most(
        &world,
        &guard,
        test_client.spy.last(Operation::Claim).at + believed(secs(10)),
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewals_deadline_counts_from_its_sending() {
    let world = World::new();
    for test_client in
        [world.test_client(secs(10)).await, world.test_client_by_session(secs(10), 0).await]
    {
        test_client.spy.once(Operation::Renew, Do::Late(millis(600)));
        let guard = test_client.mutex("n").lock().await.unwrap();
        while test_client.spy.asked(Operation::Renew).is_empty() {
            sleep(millis(100)).await;
        }
        let sent = test_client.spy.last(Operation::Renew).at;
        test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
        sleep(secs(1)).await;
        is_valid_until_at_most(&world, &guard, sent + believed(secs(10)));
        assert!(guard.remaining() > secs(8), "it was renewed");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pushed_grant_has_what_the_waiting_claim_had() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(2)));
    let (guard, waiting) = in_line_without_renewals(&world, &test_client).await;
    sleep(secs(3)).await;
    guard.release().await.unwrap();
    let pushed = waiting.await.unwrap();
    // The grant lasts for the lifetime of a waiter, from the sending of its claim. The grant does
    // not last for the whole ttl, and its time counts neither from the reply nor from the push.
    is_valid_until_at_most(
        &world,
        &pushed,
        test_client.spy.last(Operation::Claim).at + believed(secs(5)),
    );
}

#[tokio::test(start_paused = true)]
async fn a_pushed_grant_is_renewed_soon() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(100)).await;
    guard.release().await.unwrap();
    let pushed = waiting.await.unwrap().unwrap();
    sleep(millis(10)).await;
    assert!(pushed.remaining() > secs(20), "{:?}", pushed.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_pushed_grant_that_is_released_at_once_is_not_renewed_before() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(100)).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    sleep(secs(1)).await;
    assert!(test_client.spy.asked(Operation::Renew).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pushed_grant_with_a_delay_is_returned_only_after_its_renewal() {
    let world = World::new();
    let test_client = world.test_client_with(|b| b.ttl(secs(30)).lock_delay(secs(5))).await;
    let (guard, waiting) = in_line_without_renewals(&world, &test_client).await;
    guard.release().await.unwrap();
    sleep(secs(1)).await;
    assert!(!waiting.is_finished(), "the store has not acknowledged the delay");
    test_client.spy.no_rules();
    assert!(waiting.await.unwrap().remaining() > secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_know_has_acknowledged_no_delay() {
    let world = World::new();
    let test_client = world.test_client_with(|b| b.ttl(secs(30)).lock_delay(secs(5))).await;
    let (guard, waiting) = in_line_without_renewals(&world, &test_client).await;
    test_client.spy.no_rules();
    test_client.spy.always(Operation::Renew, Do::Answer(vec![Renewal::Unknown]));
    guard.release().await.unwrap();
    sleep(secs(1)).await;
    assert!(!waiting.is_finished(), "the store has not acknowledged the delay");
    test_client.spy.no_rules();
    assert!(waiting.await.unwrap().remaining() > secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_pushed_fixed_lease_is_not_handed_out_before_it_is_renewed() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().lease(secs(40)).into_future());
    while test_client.spy.asked(Operation::Renew).is_empty() {
        sleep(millis(10)).await;
    }
    // Nearly all of the waiter's lifetime is left, and the fixed lease has not begun.
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    guard.release().await.unwrap();
    sleep(secs(1)).await;
    assert!(!waiting.is_finished(), "its own life has not begun");
    test_client.spy.no_rules();
    let leased = waiting.await.unwrap().unwrap();
    assert!(leased.remaining() > secs(38), "{:?}", leased.remaining());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_deadline_revives_nothing() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    // The store processes the renewal in time, and its answer arrives after the deadline.
    test_client.spy.always(Operation::Renew, Do::Late(secs(4)));
    sleep(millis(3100)).await;
    assert!(guard.remaining().is_zero());
    sleep(secs(2)).await;
    assert!(guard.remaining().is_zero());
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_deadline_is_not_handed_out() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(4)));
    let guard = test_client.mutex("n").lock().await.unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.len(), 2);
    assert_ne!(claims[0].ids, claims[1].ids, "dead is dead");
    guard.check().unwrap();
    assert_eq!(test_client.spy.last(Operation::Withdraw).ids, claims[0].ids);
}

#[tokio::test(start_paused = true)]
async fn a_claim_late_in_its_sessions_lease_is_not_valid_beyond_it() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(3), 0).await;
    test_client.mutex("first").lock().await.unwrap().release().await.unwrap();
    let opened = test_client.spy.last(Operation::Open).at;
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(millis(2500)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    is_valid_until_at_most(&world, &guard, opened + believed(secs(3)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_late_in_its_sessions_lease_is_not_valid_beyond_it() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(3), 1).await;
    test_client.mutex("first").lock().await.unwrap().release().await.unwrap();
    let opened = test_client.spy.last(Operation::Open).at;
    sleep(millis(2500)).await;
    // With a lag of 1, one renewal proves no more than the opening.
    assert!(!test_client.spy.asked(Operation::Renew).is_empty());
    let proof = test_client
        .spy
        .asked(Operation::Renew)
        .iter()
        .rev()
        .nth(1)
        .map_or(opened, |asked| asked.at);
    let (guard, waiting) = in_line_without_renewals(&world, &test_client).await;
    guard.release().await.unwrap();
    is_valid_until_at_most(&world, &waiting.await.unwrap(), proof + believed(secs(3)));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nothing_proves_any_more_takes_no_claim() {
    let world = World::new();
    let test_client = world.test_client_by_session(secs(3), 0).await;
    test_client.mutex("first").lock().await.unwrap().release().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(millis(2990)).await;
    test_client.spy.no_rules();
    let guard = test_client.mutex("n").lock().await.unwrap();
    assert_eq!(test_client.spy.asked(Operation::Open).len(), 2);
    assert_eq!(
        test_client.spy.asked(Operation::Claim).len(),
        2,
        "nothing was tried in the old one"
    );
    assert!(guard.remaining() > secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_grants_a_shorter_ttl_is_not_believed_for_longer() {
    let world = World::new();
    let test_client =
        world.test_client_on(Capabilities::full(), Some(secs(1)), |b| b.ttl(secs(30))).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    is_valid_until_at_most(
        &world,
        &guard,
        test_client.spy.last(Operation::Claim).at + believed(secs(1)),
    );
}

#[tokio::test(start_paused = true)]
async fn the_timer_wakes_at_a_limit_that_is_set_after_it() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let long = test_client.mutex("long").lock().await.unwrap();
    // The timer is set to the end of `long` now.
    sleep(millis(100)).await;
    let start = world.now();
    let short = test_client.mutex("short").lock().max_hold(secs(1)).await.unwrap();
    assert_eq!(short.lost().await, LostReason::MaxHold);
    assert_eq!(world.now().saturating_since(start).as_secs(), 1);
    assert_eq!(test_client.count("lost"), 1);
    long.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scope_polls_nothing_once_the_lock_is_lost() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    test_client.spy.always(Operation::Renew, Do::Hang);
    sleep(secs(4)).await;
    let lost = guard.while_held(async { panic!("polled after the loss") }).await;
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_by_its_own_limit_does_not_end_the_session() {
    let test_client = World::new().test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().max_hold(secs(2)).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    sleep(millis(1)).await;
    assert_eq!(test_client.keeper.session().state(), SessionState::Valid);
}

/// A log panics like this when its reader is gone and it reports that.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        assert!(*event.metadata().level() > tracing::Level::WARN, "the log is broken");
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_takes_neither_deadlines_nor_renewals_with_it() {
    let _default = tracing::subscriber::set_default(Panics);
    let test_client = World::new().test_client(secs(9)).await;
    let [short, long] =
        [secs(2), secs(20)].map(|hold| test_client.mutex("n").lock().max_hold(hold));
    let short = short.await.unwrap();
    assert_eq!(tokio::time::timeout(secs(3), short.lost()).await.unwrap(), LostReason::MaxHold);
    drop(short);
    let long = long.await.unwrap();
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(19)).await;
    long.check().unwrap();
    assert_eq!(tokio::time::timeout(secs(2), long.lost()).await.unwrap(), LostReason::MaxHold);
    assert_eq!(test_client.count("lost"), 2, "each other guard reports it");
}

/// The number of locks is more than one scan takes.
#[tokio::test(start_paused = true)]
async fn the_loss_of_each_of_many_locks_is_reported() {
    let world = World::new();
    let test_client = world.test_client(secs(10)).await;
    test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    let mut guards = Vec::new();
    for i in 0..1500 {
        guards.push(test_client.mutex(&format!("n{i}")).lock().await.unwrap());
    }
    sleep(secs(11)).await;
    assert_eq!(test_client.count("lost"), guards.len());
}

/// The store keeps a claim for less time than its keeper asked for, and says so. The deadline
/// counts from the kept time, and the keeper renews the claim at each third of it. A ttl that is
/// longer than the keeper's own ttl changes nothing.
#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_ttl_that_the_store_keeps() {
    for (answered, kept) in [(secs(6), secs(6)), (secs(90), secs(30))] {
        let world = World::new();
        let test_client = world.test_client(secs(30)).await;
        test_client
            .spy
            .always(Operation::Claim, Do::Say(Verdict::Granted { token: 7, ttl: answered }));
        test_client
            .spy
            .always(Operation::Renew, Do::Answer(vec![Renewal::Held { token: 7, ttl: answered }]));
        let guard = test_client.mutex("n").lock().await.unwrap();
        assert!(
            guard.remaining() <= kept && guard.remaining() > kept - secs(1),
            "{:?}",
            guard.remaining()
        );
        sleep(secs(120)).await;
        guard.check().unwrap();
        assert!(
            guard.remaining() <= kept && guard.remaining() > kept / 2,
            "{:?}",
            guard.remaining()
        );
        test_client.spy.no_rules();
        test_client.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
        let left = guard.remaining();
        let start = world.now();
        guard.lost().await;
        assert!(world.now().saturating_since(start) <= left + millis(2));
    }
}
