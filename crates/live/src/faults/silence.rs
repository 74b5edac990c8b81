//! The network stops between a server and some of its clients, while the connections stay.

use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, LostReason};

use super::{HASTY, keeper, lock};
use crate::locks::{LONG, TIME_LIMIT, is_free, name, renewed, within};
use crate::proxy::Way;
use crate::server::{Server, with};

const TTL: Duration = Duration::from_secs(2);
/// How long a try may take.
const TRY: Duration = Duration::from_secs(5);

/// The holder's guard is lost by its own deadline although no packet comes. An attempt ends with an
/// error that says so within its tries. Another client gets the lock when its lease is over. And
/// when all held messages arrive in the end, they bring nothing back.
async fn falls_silent<S: Server>(way: Way) {
    let (server, name, ttl) = (S::start().unwrap(), name(), TTL.max(S::LEAST_TTL));
    let cut_off = keeper(&with(&server.url_through_proxies(), HASTY), ttl).await;
    let other = keeper(&server.url(), LONG).await;
    let guard = lock(&cut_off, &name).await;
    server.isolate(way);
    let began = Instant::now();
    let attempt = async {
        let error = cut_off.mutex(format!("{name}2")).unwrap().try_lock().await.unwrap_err();
        (error, began.elapsed())
    };
    let taking = async {
        let next = lock(&other, &name).await;
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
    server.heal().unwrap();
    assert_eq!(within(TIME_LIMIT, guard.release()).await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&next).await;
    within(TIME_LIMIT, cut_off.shutdown(TIME_LIMIT)).await.unwrap();
    for proxy in server.proxies() {
        proxy.until(|seen| seen.open == 0).await.unwrap();
    }
    renewed(&next).await;
    next.release().await.unwrap();
    is_free(&other, &name).await;
    is_free(&other, &format!("{name}2")).await;
}

/// With `falls_silent`: the server receives nothing.
pub async fn a_server_that_receives_nothing_costs_only_the_lock<S: Server>() {
    falls_silent::<S>(Way::ToServer).await;
}

/// With `falls_silent`: the server handles everything, and its answers do not arrive.
pub async fn a_server_whose_answers_are_lost_costs_only_the_lock<S: Server>() {
    falls_silent::<S>(Way::ToClient).await;
}

/// With `falls_silent` in both directions.
pub async fn a_server_behind_a_dead_network_costs_the_lock_and_nothing_else<S: Server>() {
    falls_silent::<S>(Way::Both).await;
}
