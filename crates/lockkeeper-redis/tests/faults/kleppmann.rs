//! The faults of locks with a time-out that Martin Kleppmann described in 2016, on one server. K3,
//! a clock that jumps, is in `clocks`, and K4, a crash without fsync, in `restarts`.
//!
//! In each, a holder's write comes after the lock has gone to another holder. No lock prevents
//! that; the resource does, by checking tokens.

use std::time::Duration;

use lockkeeper::fence::FenceGate;
use lockkeeper::{FencingToken, LostReason, Mode, Sequencer};
use lockkeeper_live::{Act, Proxy, Way, redis};

use crate::support::{LONG, TIME_LIMIT, is_free, keeper, name, renewed, within};
use crate::worker;

/// Less than the time-out of a request.
const TTL: Duration = Duration::from_millis(2500);

/// K1. A holder stops; its lease ends; a second holder gets the lock, and writes; the first goes on
/// and writes. The resource refuses its write, and its own first look would have shown the loss.
#[tokio::test]
async fn k1_a_paused_holder_that_goes_on_is_refused_by_the_resource() {
    let (server, name) = (redis().unwrap(), name());
    let mut paused = worker::start(&server.url());
    let token = FencingToken::new(0, paused.lock(&name, TTL)).unwrap();
    let gate = FenceGate::new(name.parse().unwrap());
    let its_write = Sequencer::new(gate.name().clone(), Mode::Exclusive, token);
    gate.admit(&its_write).unwrap();
    paused.stop();
    let keeper = keeper(server.address(), LONG).await;
    let guard = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    gate.admit(&guard.sequencer()).unwrap();
    paused.send("check");
    paused.go_on();
    gate.admit(&its_write).unwrap_err();
    assert_eq!(paused.answer(), "lost: Expired");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// K2. A holder checks that it holds the lock, and writes; the network delays the write until
/// another holder has the lock, and has written. The write is refused when it arrives, although the
/// check was right.
#[tokio::test]
async fn k2_a_delayed_write_is_refused_by_the_resource() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let (first, second) = (keeper(proxy.address(), TTL).await, keeper(server, LONG).await);
    let guard = first.mutex(&*name).unwrap().lock().await.unwrap();
    let gate = FenceGate::new(guard.name().clone());
    guard.check().unwrap();
    let delayed = guard.sequencer().to_string();
    proxy.black_hole(Way::Both);
    let next = within(TIME_LIMIT, second.mutex(&*name).unwrap().lock()).await.unwrap();
    gate.admit(&next.sequencer()).unwrap();
    gate.admit(&delayed.parse().unwrap()).unwrap_err();
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Expired);
    next.release().await.unwrap();
}

/// K5. A pause inside the acquire: the grant is under way, or unread, until its lease is over, and
/// another client has the lock. A client that reads the grant then does not take it for a lock: it
/// joins the line, and gets the lock after the other.
#[tokio::test]
async fn k5_a_pause_inside_the_acquire_returns_no_expired_lock() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let (late, other) = (keeper(proxy.address(), TTL).await, keeper(server, LONG).await);
    // The server has the script before the claim is to be the next one.
    other.mutex(format!("{name}-before")).unwrap().lock().await.unwrap().release().await.unwrap();
    let mut armed = true;
    proxy.on_request(move |request| match request.is("EVALSHA") && std::mem::take(&mut armed) {
        true => Act::HoldReply,
        false => Act::Pass,
    });
    let mutex = late.mutex(&*name).unwrap();
    let acquiring = tokio::spawn(async move { mutex.lock().await });
    proxy.until(|seen| seen.held == 1).await.unwrap();
    assert!(other.inspect(&*name).await.unwrap().is_held(), "it was granted, and nobody knows");
    let guard = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    proxy.release();
    crate::support::until_waiting(&other, &name, 1).await;
    assert!(!acquiring.is_finished(), "a grant was taken that was over");
    renewed(&guard).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, acquiring).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    is_free(&other, &name).await;
}

/// K5 for a process: it is stopped while it waits in line. The grant is pushed to it, and stays in
/// its socket until the lease of the grant is over. When the process goes on, it does not take the
/// grant for valid.
#[tokio::test]
async fn k5_a_waiter_stopped_at_its_grant_does_not_use_the_expired_grant() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server.address(), LONG).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let mut waiter = worker::start(&server.url());
    waiter.send(&format!("lock {name} {}", LONG.as_millis()));
    crate::support::until_waiting(&keeper, &name, 1).await;
    waiter.stop();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    waiter.go_on();
    crate::support::until_waiting(&keeper, &name, 1).await;
    renewed(&next).await;
    let token = next.token();
    next.release().await.unwrap();
    let granted = waiter.answer();
    assert!(
        granted.strip_prefix("locked ").unwrap().parse::<u64>().unwrap() > token.get(),
        "{granted}"
    );
    assert_eq!(waiter.ask("release"), "released");
}
