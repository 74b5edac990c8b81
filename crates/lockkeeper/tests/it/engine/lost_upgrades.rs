//! Readers that are lost or dropped while the store makes them writers.

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, Guard, LostReason};
use tokio::time::sleep;

use super::conversions::reader;
use super::spy::{Do, TestClient, World, millis, secs};

/// The requests of the reader have their time to arrive, even if a late writer has the reader's
/// place.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_lost_during_its_upgrade_keeps_its_delay() {
    let world = World::new();
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(3)).lock_delay(secs(10))).await;
    let reader = reader(&test_client).await;
    test_client.spy.once(Operation::Claim, Do::Late(secs(4)));
    assert!(reader.try_upgrade().await.is_err());
    // The claim is lost after 3 s at the latest, and kept for 10 s more.
    sleep(secs(8)).await;
    assert_eq!(world.line("n").await.len(), 1);
    sleep(secs(4)).await;
    assert!(world.line("n").await.is_empty());
    assert_eq!(test_client.keeper.leftovers(), 0);
}

/// A reader whose upgrade the store does at once. The answer comes after the end of the reader and
/// before the end of the writer: the reader was lost 2.97 s after it was acquired, and the answer
/// came after 3.2 s.
async fn reader_with_a_late_upgrade(test_client: &TestClient) -> Guard {
    let reader = reader(test_client).await;
    sleep(millis(700)).await;
    test_client.spy.once(Operation::Claim, Do::Late(millis(2500)));
    reader
}

/// The caller is gone when the answer arrives.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_lost_keeps_its_delay_though_its_upgrade_succeeds() {
    let world = World::new();
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(3)).lock_delay(secs(10))).await;
    let reader = reader_with_a_late_upgrade(&test_client).await;
    let lost = reader.lost();
    tokio::select! {
        _ = reader.try_upgrade() => panic!("the loss comes first"),
        _ = lost => {}
    }
    sleep(secs(8)).await;
    assert_eq!(world.line("n").await.len(), 1, "the store has it for 10 s more");
    sleep(secs(4)).await;
    assert!(world.line("n").await.is_empty());
    assert_eq!(test_client.keeper.leftovers(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_succeeds_after_the_loss_of_its_reader_is_a_loss() {
    for delay in [0, 10] {
        let world = World::new();
        let test_client =
            world.test_client_with(|builder| builder.ttl(secs(3)).lock_delay(secs(delay))).await;
        let reader = reader_with_a_late_upgrade(&test_client).await;
        let (guard, error) = reader.try_upgrade().await.unwrap_err().into_parts();
        assert!(guard.is_none());
        assert_eq!(
            (error.kind(), error.lost_reason()),
            (ErrorKind::Lost, Some(&LostReason::Expired))
        );
        sleep(secs(8)).await;
        assert_eq!(world.line("n").await.len(), usize::from(delay > 0));
        sleep(secs(4)).await;
        assert!(world.line("n").await.is_empty());
        assert_eq!((test_client.count("lost"), test_client.keeper.leftovers()), (1, 0));
    }
}

/// The work of the reader under the lock stays open, whatever the outcome of the upgrade is.
#[tokio::test(start_paused = true)]
async fn a_reader_that_panics_during_its_upgrade_keeps_its_delay() {
    for answer in [secs(2), secs(6)] {
        let world = World::new();
        let test_client =
            world.test_client_with(|builder| builder.ttl(secs(30)).lock_delay(secs(10))).await;
        let reader = reader(&test_client).await;
        test_client.spy.once(Operation::Claim, Do::Late(answer));
        let holder = tokio::spawn(async move {
            let panics = async {
                sleep(secs(1)).await;
                panic!("on purpose")
            };
            tokio::join!(reader.try_upgrade(), panics)
        });
        assert!(holder.await.unwrap_err().is_panic());
        sleep(secs(37)).await;
        assert_eq!(world.line("n").await.len(), 1, "its lease and its delay are not over");
        sleep(secs(4)).await;
        assert!(world.line("n").await.is_empty());
        assert_eq!(test_client.keeper.leftovers(), 0);
    }
}

/// A release takes effect at once, even if the answer comes late.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_dropped_during_its_upgrade_has_no_delay() {
    let world = World::new();
    let test_client =
        world.test_client_with(|builder| builder.ttl(secs(3)).lock_delay(secs(10))).await;
    let reader = reader_with_a_late_upgrade(&test_client).await;
    let dropped = tokio::time::timeout(secs(1), reader.try_upgrade()).await;
    assert!(dropped.is_err());
    sleep(secs(2)).await;
    assert!(world.line("n").await.is_empty());
    assert_eq!((test_client.count("lost"), test_client.keeper.leftovers()), (0, 0));
}
