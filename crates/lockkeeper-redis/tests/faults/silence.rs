//! A server whose messages do not arrive, or that receives none, while the connections stay.

use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, Keeper, LostReason};
use lockkeeper_live::{Proxy, Way, redis};

use crate::support::{LONG, TIME_LIMIT, hasty_store, is_free, keeper, name, renewed, within};

const TTL: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a try may take.
const TRY: Duration = Duration::from_secs(5);

/// The holder's guard is lost by its own deadline although no packet comes. An attempt ends with an
/// error that says so within its tries. Another client gets the lock when its lease is over. And
/// when all held messages arrive in the end, they bring nothing back.
async fn falls_silent(way: Way) {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let store = hasty_store(proxy.address(), TIMEOUT).await;
    let cut_off = Keeper::builder(store).ttl(TTL).connect().await.unwrap();
    let other = keeper(server, LONG).await;
    let guard = cut_off.mutex(&*name).unwrap().lock().await.unwrap();
    proxy.hold(way);
    let began = Instant::now();
    let attempt = async {
        let error = cut_off.mutex(format!("{name}2")).unwrap().try_lock().await.unwrap_err();
        (error, began.elapsed())
    };
    let taking = async {
        let next = other.mutex(&*name).unwrap().lock().await.unwrap();
        assert!(guard.check().is_err(), "two believe in it at the same time");
        next
    };
    let ((error, failed), reason, next) =
        within(TIME_LIMIT, async { tokio::join!(attempt, guard.lost(), taking) }).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // With all its repetitions a try ends within 5 s, and the delay of a slow machine.
    assert!(failed < TRY + Duration::from_secs(10), "{failed:?}");
    assert_eq!(reason, LostReason::Expired);
    assert!(next.token() > guard.token());
    proxy.heal();
    assert_eq!(within(TIME_LIMIT, guard.release()).await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&next).await;
    within(TIME_LIMIT, cut_off.shutdown(TIME_LIMIT)).await.unwrap();
    proxy.until(|seen| seen.open == 0).await.unwrap();
    renewed(&next).await;
    next.release().await.unwrap();
    is_free(&other, &name).await;
    is_free(&other, &format!("{name}2")).await;
}

/// See [`falls_silent`]: the server receives nothing.
#[tokio::test]
async fn a_server_that_receives_nothing_costs_only_the_lock() {
    falls_silent(Way::ToServer).await;
}

/// See [`falls_silent`]: the server handles everything, and its answers do not arrive.
#[tokio::test]
async fn a_server_whose_answers_are_lost_costs_only_the_lock() {
    falls_silent(Way::ToClient).await;
}

/// See [`falls_silent`]: both.
#[tokio::test]
async fn a_server_behind_a_dead_network_costs_the_lock_and_nothing_else() {
    falls_silent(Way::Both).await;
}
