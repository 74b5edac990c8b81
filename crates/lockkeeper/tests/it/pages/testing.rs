//! The tests of docs/testing.md.

use std::future::pending;
use std::time::Duration;

use lockkeeper::layer::Fault;
use lockkeeper::testing::{Op, TestStore};
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, Keeper, LostReason, Result, SessionState};

async fn report(keeper: &Keeper, work: impl Future<Output = Result<()>>) -> Result<bool> {
    let Some(guard) = keeper.mutex("report")?.try_lock().await? else { return Ok(false) };
    guard.scope(work).await?;
    guard.release().await?;
    Ok(true)
}

#[tokio::test]
async fn a_report_that_another_host_writes_is_skipped() {
    let keeper = Keeper::memory();
    let other = keeper.mutex("report").unwrap().lock().await.unwrap();
    assert!(!report(&keeper, async { Ok(()) }).await.unwrap());
    other.release().await.unwrap();
    assert!(report(&keeper, async { Ok(()) }).await.unwrap());
}

#[tokio::test]
async fn a_report_stops_when_its_lock_is_lost() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let loss = async {
        store.expire("report"); // The work has begun: it would never end by itself.
        pending::<Result<()>>().await
    };
    let error = report(&keeper, loss).await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(&LostReason::Expired));
}

#[tokio::test]
async fn a_report_whose_lock_was_lost_at_the_end_is_an_error() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let guard = keeper.mutex("report").unwrap().lock().await.unwrap();
    store.break_all(); // An operator takes all locks away.
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_store_outage_is_an_error_and_not_a_busy_lock() {
    let clock = Clock::tokio();
    let store = TestStore::with_clock(clock.clone());
    let keeper = Keeper::builder(store.clone()).clock(clock).connect().await.unwrap();
    for _ in 0..4 {
        store.fail_next(Op::Claim, ErrorKind::Unavailable); // A keeper tries four times.
    }
    let error = report(&keeper, async { Ok(()) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(report(&keeper, async { Ok(()) }).await.unwrap());
}

#[tokio::test]
async fn an_answer_that_gets_lost_costs_nothing() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    store.plan(Op::Claim, Fault::LostReply); // The store has granted the lock, and its answer is lost.
    assert!(report(&keeper, async { Ok(()) }).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_network_ends_the_lease() {
    let clock = Clock::tokio();
    let store = TestStore::with_clock(clock.clone());
    let keeper = Keeper::builder(store.clone())
        .clock(clock)
        .ttl(Duration::from_secs(3600))
        .connect()
        .await
        .unwrap();
    let guard = keeper.mutex("report").unwrap().lock().await.unwrap();
    let mut session = keeper.session();
    let cut = store.pause_renewals();
    assert_eq!(session.changed().await, SessionState::Jeopardy); // The first renewal is missing.
    guard.check().unwrap(); // The lock is still ours.
    assert_eq!(guard.lost().await, LostReason::Expired);
    drop(cut);
}
