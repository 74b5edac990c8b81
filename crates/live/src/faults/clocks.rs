//! The server's clock is moved.

use std::time::{Duration, Instant};

use lockkeeper::fence::FenceGate;
use lockkeeper::store::Renewal;
use lockkeeper::{ErrorKind, LostReason};

use super::claimant::{Claimant, spec};
use super::{keeper, lock};
use crate::locks::{LONG, TIME_LIMIT, connected, is_free, name, renewed, within};
use crate::server::Server;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

/// K3, a clock that jumps. The clock goes ahead by more than the ttl: the server takes the holder
/// for dead and grants the lock again while the holder still takes it for valid. Exclusion fails,
/// and this test shows it. The second token is higher, so a fence refuses the first holder, which
/// learns of the loss at its next renewal.
pub async fn k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder<S: Server>() {
    let (mut server, name) = (S::start().unwrap(), name());
    let (holder, other) = (keeper(&server.url(), LONG).await, keeper(&server.url(), LONG).await);
    let older = lock(&holder, &name).await;
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    server.shift_clock(MINUTE).unwrap();
    let newer = within(TIME_LIMIT, lock(&other, &name)).await;
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
pub async fn a_clock_jump_shorter_than_the_ttl_loses_no_lock<S: Server>() {
    let (mut server, name) = (S::start().unwrap(), name());
    let keeper = keeper(&server.url(), 4 * LONG).await;
    let guard = lock(&keeper, &name).await;
    server.shift_clock(MINUTE).unwrap();
    renewed(&guard).await;
    assert!(keeper.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// The clock goes back by an hour under a living holder: the holder keeps the lock, and later
/// tokens are higher although the clock at which they begin is lower.
pub async fn a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise<S: Server>() {
    let (mut server, name) = (S::start().unwrap(), name());
    let (holder, other) = (keeper(&server.url(), LONG).await, keeper(&server.url(), LONG).await);
    let guard = lock(&holder, &name).await;
    server.shift_clock(-HOUR).unwrap();
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

/// The clock goes back by an hour, and the holder is dead: the next client gets the lock when the
/// ttl is over, counted from the jump, and not an hour later.
pub async fn a_clock_that_goes_back_does_not_prolong_a_dead_lock<S: Server>() {
    let (mut server, name, ttl) = (S::start().unwrap(), name(), Duration::from_secs(4));
    let dead = Claimant::new(&connected(&server.url()).await, &name, &spec(ttl)).await;
    let first = dead.granted().await;
    server.shift_clock(-HOUR).unwrap();
    let began = Instant::now();
    let keeper = keeper(&server.url(), LONG).await;
    let guard = within(TIME_LIMIT, lock(&keeper, &name)).await;
    assert!(guard.token().get() > first);
    assert!(began.elapsed() < 2 * ttl + Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(dead.renew().await, Renewal::Lost(None));
    guard.release().await.unwrap();
    is_free(&keeper, &name).await;
}

/// The clock goes back by an hour, and the holder and the first waiter are dead: the next waiter
/// gets the lock when their ttls are over, counted from the jump, and not an hour later.
pub async fn a_clock_that_goes_back_does_not_prolong_dead_claims<S: Server>() {
    let (mut server, name, ttl) = (S::start().unwrap(), name(), Duration::from_secs(4));
    let store = connected(&server.url()).await;
    let (dead, dead_too) = (
        Claimant::new(&store, &name, &spec(ttl)).await,
        Claimant::new(&store, &name, &spec(ttl)).await,
    );
    let first = dead.granted().await;
    dead_too.queued().await;
    server.shift_clock(-HOUR).unwrap();
    let began = Instant::now();
    let keeper = keeper(&server.url(), LONG).await;
    let guard = within(TIME_LIMIT, lock(&keeper, &name)).await;
    assert!(guard.token().get() > first);
    assert!(began.elapsed() < 2 * ttl + Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(dead.renew().await, Renewal::Lost(None));
    guard.release().await.unwrap();
    is_free(&keeper, &name).await;
}

/// The clock goes ahead by an hour and back again, between grants: tokens rise all the way.
pub async fn tokens_rise_while_the_clock_goes_to_and_fro<S: Server>() {
    let (mut server, name, mut last) = (S::start().unwrap(), name(), 0);
    let store = connected(&server.url()).await;
    for offset in [0, HOUR, 0, -HOUR, MINUTE, -HOUR, 0] {
        server.shift_clock(offset).unwrap();
        for _ in 0..2 {
            let claimant = Claimant::new(&store, &name, &spec(LONG)).await;
            let next = claimant.granted().await;
            assert!(next > last, "{next} after {last} at {offset} s");
            last = next;
            claimant.release().await;
        }
    }
}

/// The clock was ahead by five days when a token was issued, and went back. The key with the tokens
/// of the name lives until the clock is there again, although the lock is unused meanwhile and such
/// keys usually live for two days.
pub async fn a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up<S: Server>() {
    const DAY: i64 = 24 * HOUR;
    let (mut server, name) = (S::start().unwrap(), name());
    let keeper = keeper(&server.url(), LONG).await;
    let mut last = None;
    for day in [5, 0, 3, 1, 4] {
        server.shift_clock(day * DAY).unwrap();
        let guard = within(TIME_LIMIT, lock(&keeper, &name)).await;
        let token = Some(guard.token());
        assert!(token > last, "{token:?} after {last:?} on day {day}");
        last = token;
        guard.release().await.unwrap();
    }
}
