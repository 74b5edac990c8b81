//! A client is stopped, or killed.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper_testing::Crash;

use super::{keeper, lock, short_ttl, worker};
use crate::locks::{LONG, TIME_LIMIT, is_free, name, renewed, until_waiting, within};
use crate::server::LiveStore;

/// How much later than promised a lock is free on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// A holder that is stopped for longer than its ttl knows at its first look that it has lost the
/// lock; its later requests do not disturb the present holder.
pub async fn a_stopped_holder_has_lost_at_its_first_look<S: LiveStore>() {
    let (store, name) = (S::start().unwrap(), name());
    let mut worker = worker::start::<S>(&store.url());
    let older = worker.lock(&name, short_ttl::<S>());
    worker.stop();
    let keeper = keeper(&store.url(), LONG).await;
    let guard = within(TIME_LIMIT, lock(&keeper, &name)).await;
    assert!(guard.token().get() > older);
    // Sent before the process goes on, so that the look is its first action.
    worker.send("check");
    worker.go_on();
    assert_eq!(worker.answer(), "lost: Expired");
    assert_eq!(worker.ask("release"), "Lost");
    renewed(&guard).await;
    guard.release().await.unwrap();
    is_free(&keeper, &name).await;
    assert!(worker.end().success());
}

/// A holder that is stopped for less than its ttl holds the lock when it goes on.
pub async fn a_holder_that_was_stopped_for_less_than_its_ttl_still_holds<S: LiveStore>() {
    let (store, name) = (S::start().unwrap(), name());
    let mut worker = worker::start::<S>(&store.url());
    worker.lock(&name, Duration::from_secs(8));
    worker.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    worker.send("check");
    worker.go_on();
    assert_eq!(worker.answer(), "held");
    assert_eq!(worker.ask("release"), "released");
}

/// A waiter that is stopped loses its place, and another client gets the lock. The waiter waits
/// again when it goes on.
pub async fn a_stopped_waiter_is_passed_by<S: LiveStore>() {
    let (store, name) = (S::start().unwrap(), name());
    let holder = keeper(&store.url(), LONG).await;
    let guard = lock(&holder, &name).await;
    let mut worker = worker::start::<S>(&store.url());
    worker.send(&format!("lock {name} {}", LONG.as_millis()));
    store.until_waiting(&holder, &name, 1).await;
    worker.stop();
    guard.release().await.unwrap();
    let other = keeper(&store.url(), LONG).await;
    let next = within(TIME_LIMIT, lock(&other, &name)).await;
    let before = next.token().get();
    worker.go_on();
    next.release().await.unwrap();
    let granted = worker.answer();
    let token: u64 = granted.strip_prefix("locked ").unwrap().parse().unwrap();
    assert!(token > before, "{token} after {before}");
    assert_eq!(worker.ask("release"), "released");
}

/// A killed holder keeps the lock for its ttl, and no longer. Where the store notices the death,
/// the lock is free at once, however long the ttl is.
pub async fn a_killed_holder_costs_its_ttl_at_most<S: LiveStore>() {
    let (store, name) = (S::start().unwrap(), name());
    let (ttl, limit) = match S::ON_CRASH {
        Crash::Frees => (LONG, Duration::from_secs(5)),
        Crash::Silent => (short_ttl::<S>(), short_ttl::<S>() + SLACK),
    };
    let mut worker = worker::start::<S>(&store.url());
    let older = worker.lock(&name, ttl);
    let keeper = keeper(&store.url(), LONG).await;
    let waiting = tokio::spawn(keeper.mutex(&*name).unwrap().lock().into_future());
    store.until_waiting(&keeper, &name, 1).await;
    let killed = Instant::now();
    worker.kill();
    let guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(guard.token().get() > older);
    assert!(killed.elapsed() < limit, "{:?}", killed.elapsed());
    guard.release().await.unwrap();
}

/// With a lock-delay, the lock of a killed process stays taken for the delay.
pub async fn a_killed_holders_delay_runs_out_first<S: LiveStore>() {
    const DELAY: Duration = Duration::from_secs(1);
    let (store, name) = (S::start().unwrap(), name());
    let ttl = match S::ON_CRASH {
        Crash::Frees => LONG,
        Crash::Silent => short_ttl::<S>(),
    };
    let keeper = keeper(&store.url(), LONG).await;
    let mut worker = worker::start::<S>(&store.url());
    let order = format!("lock {name} {} {}", ttl.as_millis(), DELAY.as_millis());
    assert!(worker.ask(&order).starts_with("locked"));
    let killed = Instant::now();
    worker.kill();
    let guard = within(TIME_LIMIT * 2, lock(&keeper, &name)).await;
    let after = killed.elapsed();
    let (least, most) = match S::ON_CRASH {
        Crash::Frees => (DELAY, Duration::from_secs(15)),
        Crash::Silent => (DELAY + ttl / 2, ttl + DELAY + 2 * SLACK),
    };
    assert!(after >= least - Duration::from_millis(10) && after < most, "{after:?}");
    guard.release().await.unwrap();
}

/// A waiter that is killed at the head of the line delays the waiters behind it by a waiter's ttl
/// at most; they get the lock in their order.
pub async fn a_dead_waiter_at_the_head_costs_a_waiters_ttl<S: LiveStore>() {
    let (store, name, ttl) = (S::start().unwrap(), name(), short_ttl::<S>());
    let holder = keeper(&store.url(), LONG).await;
    let guard = lock(&holder, &name).await;
    let mut worker = worker::start::<S>(&store.url());
    worker.send(&format!("lock {name} {}", ttl.as_millis()));
    until_waiting(&holder, &name, 1).await;
    let mut behind = Vec::new();
    for position in 2..4 {
        let next = keeper(&store.url(), LONG).await;
        behind.push(tokio::spawn(next.mutex(&*name).unwrap().lock().into_future()));
        until_waiting(&holder, &name, position).await;
    }
    worker.kill();
    guard.release().await.unwrap();
    let (released, mut last) = (Instant::now(), 0);
    for (position, next) in behind.into_iter().enumerate() {
        let guard = within(TIME_LIMIT, next).await.unwrap().unwrap();
        if position == 0 {
            // The ttl of the dead waiter, and the time until the next waiter looks.
            assert!(released.elapsed() < ttl + SLACK + SLACK / 3, "{:?}", released.elapsed());
        }
        assert!(guard.token().get() > last);
        last = guard.token().get();
        guard.release().await.unwrap();
    }
    is_free(&holder, &name).await;
}

/// Tokens rise over processes that are killed, that end, and that release first.
pub async fn tokens_rise_over_processes_that_end_in_any_way<S: LiveStore>() {
    let (store, name, mut last) = (S::start().unwrap(), name(), 0);
    for round in 0..6 {
        let mut worker = worker::start::<S>(&store.url());
        let token = worker.lock(&name, short_ttl::<S>());
        assert!(token > last, "{token} after {last}");
        last = token;
        match round % 3 {
            0 => worker.kill(),
            1 => assert!(worker.end().success()),
            _ => {
                assert_eq!(worker.ask("release"), "released");
                assert!(worker.end().success());
            }
        }
    }
}
