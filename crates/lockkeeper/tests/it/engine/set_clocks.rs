//! Machines that were paused. Their wall clock, which is set afterwards, reveals the pause.

use lockkeeper::layer::Operation;
use lockkeeper::{LostReason, SessionState};
use tokio::time::sleep;

use super::spy::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_changed_wall_clock_causes_renewals_at_once() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let [kept, gone] = [
        test_client.mutex("kept").lock().await.unwrap(),
        test_client.mutex("gone").lock().await.unwrap(),
    ];
    sleep(secs(1)).await;
    // The store has lost the claim while the machine was paused.
    world.forget("gone", test_client.spy.last(Operation::Claim).ids[0]).await;
    let (start, mut session) = (world.now(), test_client.keeper.session());
    world.clock.set_wall_clock_ahead(secs(45));
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    assert_eq!(world.now(), start);
    assert_eq!(gone.lost().await, LostReason::Forgotten);
    assert!(world.now().saturating_since(start) <= millis(100));
    assert_eq!(session.changed().await, SessionState::Valid);
    kept.check().unwrap();
    assert_eq!(test_client.count("ClockAnomaly"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_change_within_the_drift_causes_no_request() {
    let world = World::new();
    let test_client = world.test_client(secs(30)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    sleep(secs(1)).await;
    world.clock.set_wall_clock_ahead(millis(9));
    sleep(secs(1)).await;
    assert_eq!(
        (test_client.spy.asked(Operation::Renew).len(), test_client.count("ClockAnomaly")),
        (0, 0)
    );
    guard.release().await.unwrap();
}
