//! Waiting beside the line: by choice, or because the store has no line.

use std::future::IntoFuture;

use lockkeeper::ErrorKind;
use lockkeeper::layer::Operation;
use lockkeeper::store::Capabilities;
use tokio::time::{sleep, timeout};

use super::spy::{Do, TestClient, World, millis, secs};

async fn without_a_queue(world: &World) -> TestClient {
    let mut can = Capabilities::full();
    can.queue = false;
    world.test_client_on(can, None, |builder| builder.ttl(secs(30))).await
}

#[tokio::test(start_paused = true)]
async fn where_the_store_keeps_no_line_lock_waits_all_the_same() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(30)).await, without_a_queue(&world).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(millis(10)).await;
    assert_eq!(test_client.keeper.leftovers(), 0, "between two tries it has nothing");
    sleep(secs(60)).await;
    assert_eq!(world.line("n").await.len(), 1, "it never stands in line");
    assert_eq!((test_client.count("queued"), waiting.is_finished()), (0, false));
    let released = world.now();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(world.now().saturating_since(released) < millis(10));
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_in_the_store_a_wait_has_an_end() {
    let world = World::new();
    let (holder, test_client) = (world.test_client(secs(30)).await, without_a_queue(&world).await);
    let _guard = holder.mutex("n").lock().await.unwrap();
    let began = world.now();
    assert_eq!(
        test_client.mutex("n").lock().wait(secs(7)).await.unwrap_err().kind(),
        ErrorKind::Timeout
    );
    assert_eq!(world.now().saturating_since(began), secs(7));
    assert!(test_client.mutex("n").try_lock().await.unwrap().is_none());
    assert_eq!(world.now().saturating_since(began), secs(7));
}

/// Without a change the attempt sends few claims: one at the start, and then one every eight to ten
/// seconds.
#[tokio::test(start_paused = true)]
async fn it_does_not_poll() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let _guard = holder.mutex("n").lock().await.unwrap();
    let attempt = test_client.mutex("n").lock().unfair().wait(secs(100));
    assert_eq!(attempt.await.unwrap_err().kind(), ErrorKind::Timeout);
    let tries = test_client.spy.asked(Operation::Claim).len();
    assert!((10..=14).contains(&tries), "{tries}");
}

/// The death of a silent holder causes no wake-up, but the end of its lease is known before.
#[tokio::test(start_paused = true)]
async fn it_tries_as_soon_as_a_dead_holder_is_over() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(2)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    holder.spy.always(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    let began = world.now();
    let unfair = test_client.mutex("n").lock().unfair().await.unwrap();
    assert!(world.now().saturating_since(began) < millis(2100));
    assert!(guard.check().is_err());
    unfair.release().await.unwrap();
}

/// Each try has an id of its own. A try of unknown outcome is settled before the next try.
#[tokio::test(start_paused = true)]
async fn a_try_of_unknown_outcome_is_settled_before_the_next() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().unfair().into_future());
    sleep(millis(10)).await;
    test_client.spy.once(Operation::Claim, Do::LoseReply);
    guard.release().await.unwrap();
    let unfair = waiting.await.unwrap().unwrap();
    let claims = test_client.spy.asked(Operation::Claim);
    assert_eq!(claims.iter().map(|asked| asked.resend).collect::<Vec<_>>(), [false, false, true]);
    assert!(claims[0].ids != claims[1].ids && claims[1].ids == claims[2].ids);
    unfair.release().await.unwrap();
    assert_eq!(world.line("n").await.len(), 0);
}

/// After the store has refused it once, an unfair attempt outlasts an outage, like an attempt in
/// line.
#[tokio::test(start_paused = true)]
async fn it_outlasts_an_outage() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().unfair().into_future());
    sleep(millis(10)).await;
    for operation in [Operation::Claim, Operation::Wait, Operation::Renew, Operation::Open] {
        test_client.spy.always(operation, Do::Fail(ErrorKind::Unavailable));
    }
    guard.release().await.unwrap();
    sleep(secs(60)).await;
    assert!(!waiting.is_finished());
    test_client.spy.no_rules();
    timeout(secs(5), waiting).await.unwrap().unwrap().unwrap().release().await.unwrap();
}
