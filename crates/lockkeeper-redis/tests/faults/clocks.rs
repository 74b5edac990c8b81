//! The server's clock is moved.

use std::time::{Duration, Instant};

use lockkeeper::fence::FenceGate;
use lockkeeper::store::Renewal;
use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::Redis;

use crate::support::{
    Claimant, LONG, TIME_LIMIT, is_free, keeper, name, renewed, store, token, within,
};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

fn server() -> Redis {
    Redis::builder().with_clock().start().unwrap()
}

/// K3, a clock that jumps. The clock goes ahead by more than the ttl: the server takes the holder
/// for dead and grants the lock again while the holder still takes it for valid. Exclusion fails,
/// and this test shows it. The second token is higher, so a fence refuses the first holder, which
/// learns of the loss at its next renewal.
#[tokio::test]
async fn k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder() {
    let (server, name) = (server(), name());
    let (holder, other) =
        (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let older = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    server.set_clock_offset(MINUTE).unwrap();
    let newer = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    older.check().expect("two believe in it at the same time: only the fence helps");
    assert!(newer.token() > older.token());
    gate.admit(&newer.sequencer()).unwrap();
    gate.admit(&older.sequencer()).unwrap_err();
    older.renew_once().await.unwrap_err();
    assert_eq!(older.check().unwrap_err().lost_reason(), Some(&LostReason::Forgotten));
    assert_eq!(older.release().await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&newer).await;
    newer.release().await.unwrap();
    is_free(&other, &name).await;
}

/// The clock goes ahead by less than the ttl: the holder keeps the lock and its token.
#[tokio::test]
async fn a_clock_jump_shorter_than_the_ttl_loses_no_lock() {
    let (server, name) = (server(), name());
    let keeper = keeper(server.address(), 4 * LONG).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    server.set_clock_offset(MINUTE).unwrap();
    renewed(&guard).await;
    assert!(keeper.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// The clock goes back by an hour under a living holder: the holder keeps the lock, and later
/// tokens are higher although the clock at which they begin is lower.
#[tokio::test]
async fn a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise() {
    let (server, name) = (server(), name());
    let (holder, other) =
        (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    server.set_clock_offset(-HOUR).unwrap();
    renewed(&guard).await;
    assert!(other.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    let mut last = guard.token();
    guard.release().await.unwrap();
    for _ in 0..3 {
        let next = other.mutex(&*name).unwrap().try_lock().await.unwrap().expect("it is free");
        assert!(next.token() > last);
        last = next.token();
        next.release().await.unwrap();
    }
}

/// The clock goes back by an hour, and the holder and the first waiter are dead: the next waiter
/// gets the lock when their ttls are over, counted from the jump, and not an hour later.
#[tokio::test]
async fn a_clock_that_goes_back_does_not_prolong_dead_claims() {
    let (server, name, ttl) = (server(), name(), Duration::from_secs(4));
    let store = store(server.address()).await;
    let (dead, dead_too) =
        (Claimant::new(&store, &name, ttl).await, Claimant::new(&store, &name, ttl).await);
    let first = dead.granted().await;
    dead_too.queued().await;
    server.set_clock_offset(-HOUR).unwrap();
    let began = Instant::now();
    let keeper = keeper(server.address(), LONG).await;
    let guard = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    assert!(guard.token().get() > first);
    assert!(began.elapsed() < 2 * ttl + Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(dead.renew().await.unwrap(), Renewal::Lost(None));
    guard.release().await.unwrap();
    is_free(&keeper, &name).await;
}

/// The clock goes ahead by an hour and back again, between grants: tokens rise all the way.
#[tokio::test]
async fn tokens_rise_while_the_clock_goes_to_and_fro() {
    let (server, name, mut last) = (server(), name(), 0);
    let store = store(server.address()).await;
    for offset in [0, HOUR, 0, -HOUR, MINUTE, -HOUR, 0] {
        server.set_clock_offset(offset).unwrap();
        for _ in 0..2 {
            let claimant = Claimant::new(&store, &name, LONG).await;
            let next = token(claimant.send().await);
            assert!(next > last, "{next} after {last} at {offset} s");
            last = next;
            claimant.release().await;
        }
    }
}

/// The clock was ahead by five days when a token was issued, and went back. The key with the tokens
/// of the name lives until the clock is there again, although the lock is unused meanwhile and such
/// keys usually live for two days.
#[tokio::test]
async fn a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up() {
    const DAY: i64 = 24 * HOUR;
    let (server, name) = (server(), name());
    let keeper = keeper(server.address(), LONG).await;
    let mut last = None;
    for day in [5, 0, 3, 1, 4] {
        server.set_clock_offset(day * DAY).unwrap();
        let guard = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
        let token = Some(guard.token());
        assert!(token > last, "{token:?} after {last:?} on day {day}");
        last = token;
        guard.release().await.unwrap();
    }
}
