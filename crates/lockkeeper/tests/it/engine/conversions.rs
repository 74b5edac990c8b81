//! Upgrades and downgrades on a store that loses or delays answers.

use lockkeeper::layer::Operation;
use lockkeeper::store::{Admission, Amend, Amended, Capabilities, ClaimKey, SessionId, Store as _};
use lockkeeper::{Effect, ErrorKind, Guard, Mode, Owner};
use tokio::time::sleep;

use super::spy::{Do, TestClient, World, millis, secs};

pub(super) async fn reader(test_client: &TestClient) -> Guard {
    test_client.keeper.rw_lock("n").unwrap().read().await.unwrap()
}

async fn writer(test_client: &TestClient) -> Guard {
    test_client.keeper.rw_lock("n").unwrap().write().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_whose_answer_is_lost_is_asked_for_again() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let writer = writer(&test_client).await;
    test_client.spy.once(Operation::Amend, Do::LoseReply);
    let reader = writer.downgrade().await.unwrap();
    assert_eq!((reader.mode(), test_client.spy.asked(Operation::Amend).len()), (Mode::Shared, 2));
}

/// The store may have let readers in, so the guard must not report an exclusive hold.
#[tokio::test(start_paused = true)]
async fn after_a_downgrade_of_unknown_outcome_the_guard_is_a_reader() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let guard = writer(&test_client).await;
    test_client.spy.always(Operation::Amend, Do::LoseReply);
    let (guard, error) = guard.downgrade().await.unwrap_err().into_parts();
    let guard = guard.unwrap();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    let beside = reader(&other).await;
    assert_eq!((guard.mode(), guard.sequencer().mode()), (Mode::Shared, Mode::Shared));
    guard.check().unwrap();
    beside.release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_downgrade_that_was_refused_the_guard_is_the_writer() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = writer(&test_client).await;
    test_client.spy.always(Operation::Amend, Do::Fail(ErrorKind::Denied));
    let (guard, error) = guard.downgrade().await.unwrap_err().into_parts();
    let guard = guard.unwrap();
    assert_eq!((error.kind(), guard.mode()), (ErrorKind::Denied, Mode::Exclusive));
    let mut can = Capabilities::full();
    can.amend = false;
    let unable = world.test_client_on(can, None, |builder| builder).await;
    drop(guard);
    let refused = writer(&unable).await.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_answer_is_lost_is_asked_for_again() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let reader = reader(&test_client).await;
    test_client.spy.once(Operation::Claim, Do::LoseReply);
    let writer = reader.try_upgrade().await.unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    let last = claims.last().unwrap();
    assert_eq!((last.resend, &last.ids), (true, &claims[claims.len() - 2].ids));
    writer.release().await.unwrap();
    assert!(world.line("n").await.is_empty());
}

/// Before the answer to the upgrade arrives, the store no longer has the reader, and renewals say
/// so. That is no loss.
#[tokio::test(start_paused = true)]
async fn a_renewal_during_the_upgrade_is_no_loss() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let reader = reader(&test_client).await;
    let lost = reader.lost();
    test_client.spy.once(Operation::Claim, Do::Late(millis(1900)));
    let writer = reader.try_upgrade().await.unwrap();
    assert!(!test_client.spy.asked(Operation::Renew).is_empty(), "it was renewed meanwhile");
    assert_eq!(test_client.count("lost"), 0);
    writer.check().unwrap();
    let lost = tokio::time::timeout(secs(60), lost).await;
    assert!(lost.is_err(), "what became the writer was never lost");
    writer.check().unwrap();
}

/// The late writer is withdrawn, so the store has neither the reader nor the writer. The guard must
/// not report the lock as held, even though the reader's lease has not expired.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_came_too_late_ends_both() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let reader = reader(&test_client).await;
    // A claim that has no answer for the lifetime of a waiter is no longer used.
    test_client.spy.once(Operation::Claim, Do::Late(secs(6)));
    let (guard, error) = reader.try_upgrade().await.unwrap_err().into_parts();
    assert!(guard.is_none(), "the reader is not to be believed in");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    sleep(millis(10)).await;
    assert!(world.line("n").await.is_empty());
    writer(&other).await.release().await.unwrap();
    assert_eq!(test_client.keeper.leftovers(), 0);
}

/// A reader whose upgrade was refused as busy is renewed at once: no answer during the attempt
/// proved that the reader lives.
#[tokio::test(start_paused = true)]
async fn a_reader_that_stays_one_is_looked_after_at_once() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let (guard, beside) = (reader(&test_client).await, reader(&other).await);
    let guard = guard.try_upgrade().await.unwrap_err().into_guard().unwrap();
    sleep(millis(10)).await;
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 1);
    sleep(secs(100)).await;
    guard.check().unwrap();
    beside.check().unwrap();
}

/// A fixed lease starts again with the upgrade, and has the same length.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_starts_again_with_the_upgrade() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let reader = test_client.keeper.rw_lock("n").unwrap().read().lease(secs(10)).await.unwrap();
    sleep(secs(6)).await;
    let writer = reader.try_upgrade().await.unwrap();
    sleep(secs(6)).await;
    assert_eq!(
        test_client.spy.asked(Operation::Close).len(),
        1,
        "the session of the reader's lease"
    );
    writer.check().unwrap();
    sleep(secs(6)).await;
    assert!(writer.check().is_err());
    drop(writer);
    sleep(secs(1)).await;
    assert_eq!(test_client.keeper.leftovers(), 0);
}

/// The store has no readers, so the keeper must not ask it for a shared hold.
#[tokio::test(start_paused = true)]
async fn a_store_without_readers_makes_none() {
    let mut can = Capabilities::full();
    can.admission = Admission::Exclusive;
    let test_client = World::new().test_client_on(can, None, |builder| builder).await;
    let (guard, error) = writer(&test_client).await.downgrade().await.unwrap_err().into_parts();
    let guard = guard.unwrap();
    assert_eq!((error.kind(), guard.mode()), (ErrorKind::Unsupported, Mode::Exclusive));
    assert!(test_client.spy.asked(Operation::Amend).is_empty());
}

/// The next process that adopts the handle would report an exclusive hold.
#[tokio::test(start_paused = true)]
async fn what_was_adopted_is_not_downgraded() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let handle = test_client.keeper.rw_lock("n").unwrap().write().detached(secs(60)).await.unwrap();
    let guard = test_client.keeper.adopt(handle).unwrap();
    guard.renew_once().await.unwrap();
    let (guard, error) = guard.downgrade().await.unwrap_err().into_parts();
    let guard = guard.unwrap();
    assert_eq!((error.kind(), guard.mode()), (ErrorKind::Invalid, Mode::Exclusive));
    assert!(other.keeper.rw_lock("n").unwrap().try_read().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// The first request may have let readers in, even if the shutdown keeps the second request from
/// being sent.
#[tokio::test(start_paused = true)]
async fn a_shutdown_makes_no_known_outcome_of_an_unknown_one() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = writer(&test_client).await;
    test_client.spy.always(Operation::Amend, Do::LoseReply);
    let shutdown = async {
        sleep(millis(1)).await;
        let _ = test_client.keeper.clone().shutdown(secs(1)).await;
    };
    let (downgraded, ()) = tokio::join!(guard.downgrade(), shutdown);
    let (guard, error) = downgraded.unwrap_err().into_parts();
    let guard = guard.unwrap();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::Unknown));
    assert_eq!(guard.mode(), Mode::Shared);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_has_upgraded_and_released_owns_nothing() {
    let test_client = World::new().test_client(secs(30)).await;
    let (prices, me) = (test_client.keeper.rw_lock("n").unwrap(), Owner::new());
    let writer = prices.read().owner(&me).await.unwrap().try_upgrade().await.unwrap();
    assert_eq!(prices.read().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    writer.release().await.unwrap();
    prices.write().owner(&me).await.unwrap().release().await.unwrap();
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_ends_one_token_and_begins_another_for_watchers_too() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let writer = reader(&test_client).await.try_upgrade().await.unwrap();
    assert_eq!(
        (
            test_client.count("acquired"),
            test_client.count("Upgraded"),
            test_client.count("released")
        ),
        (1, 1, 0)
    );
    writer.release().await.unwrap();
    assert_eq!((test_client.count("released"), test_client.count("DroppedWithoutRelease")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_an_upgrade_that_was_refused_takes_nobodys_place() {
    let world = World::new();
    let (test_client, other) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let (guard, beside) = (reader(&test_client).await, reader(&other).await);
    let guard = guard.try_upgrade().await.unwrap_err().into_guard().unwrap();
    let asked = test_client.spy.last(Operation::Claim).ids;
    sleep(millis(10)).await;
    let withdrawn = test_client.spy.last(Operation::Withdraw);
    assert_eq!((withdrawn.ids, withdrawn.tombstone), (asked, Some(secs(60))));
    beside.release().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_lost_keeps_its_owner_from_nothing() {
    let world = World::new();
    let test_client = world.test_client(secs(3)).await;
    let owner = Owner::new();
    let lost = test_client.mutex("n").lock().owner(&owner).max_hold(secs(1)).await.unwrap();
    lost.lost().await;
    let again = test_client.mutex("n").lock().owner(&owner).wait(secs(30)).await.unwrap();
    assert!(lost.check().is_err());
    again.release().await.unwrap();
}

/// Another process has changed the claim, with higher numbers. The change gets a number above them.
#[tokio::test(start_paused = true)]
async fn a_change_goes_on_above_the_numbers_of_others() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let writer = writer(&test_client).await;
    let claimed = test_client.spy.last(Operation::Claim);
    let key =
        ClaimKey { name: "n".parse().unwrap(), session: SessionId::random(), id: claimed.ids[0] };
    assert_eq!(
        world.store.amend(&key, 1 << 40, &Amend::Value((*b"theirs").into())).await.unwrap(),
        Amended::Done
    );
    let reader = writer.downgrade().await.unwrap();
    // The other process has learned the same last number, and must not take our change for its own.
    let theirs =
        world.store.amend(&key, (1 << 40) + 1, &Amend::Value((*b"later").into())).await.unwrap();
    assert!(matches!(theirs, Amended::Older { last } if last > (1 << 40) + 1), "{theirs:?}");
    let line = world.store.line(&key.name).await.unwrap();
    assert_eq!(line.entries[0].weight, 1);
    reader.release().await.unwrap();
}
