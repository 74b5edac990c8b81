//! The server is killed and started again.

use std::future::IntoFuture;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lockkeeper::fence::FenceGate;
use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::{Act, Proxy, Redis};

use crate::support::{LONG, TIME_LIMIT, keeper, name, renewed, until_waiting, within};

/// Tokens rise over restarts with and without the data, and over a restart in between that lost
/// everything.
#[tokio::test]
async fn tokens_rise_over_restarts_whatever_was_kept() {
    let mut server = Redis::builder().persistent().start().unwrap();
    let (name, mut last) = (name(), 0);
    for round in 0..6 {
        let keeper = keeper(server.address(), LONG).await;
        let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
        assert!(guard.token().get() > last, "{} after {last}", guard.token());
        last = guard.token().get();
        guard.release().await.unwrap();
        match round % 2 {
            0 => server.restart().unwrap(),
            _ => server.restart_empty().unwrap(),
        }
    }
}

/// K4, a crash without fsync. Killed and started again without its data: the lock is forgotten, so
/// a second holder gets it while the first holder, which is cut off, still takes it for valid.
/// Exclusion fails, and this test shows it. The second token is higher, so a fence that has seen it
/// refuses the first holder. The first holder learns of the loss when it is connected again.
#[tokio::test]
async fn k4_a_server_without_its_data_is_caught_by_the_fence() {
    let mut server = Redis::start().unwrap();
    let name = name();
    let proxy = Proxy::resp(server.address()).unwrap();
    let holder = keeper(proxy.address(), LONG).await;
    let older = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    proxy.refuse();
    proxy.cut();
    server.restart().unwrap();
    let other = keeper(server.address(), LONG).await;
    let newer = other.mutex(&*name).unwrap().try_lock().await.unwrap().expect("it is forgotten");
    older.check().expect("two believe in it at the same time: only the fence helps");
    assert!(newer.token() > older.token());
    gate.admit(&newer.sequencer()).unwrap();
    gate.admit(&older.sequencer()).unwrap_err();
    proxy.accept().unwrap();
    assert_eq!(within(TIME_LIMIT, older.lost()).await, LostReason::Forgotten);
    assert!(older.check().is_err(), "a renewal has revived it");
    assert_eq!(older.release().await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&newer).await;
    newer.release().await.unwrap();
}

/// The holder learns of the loss as soon as it is connected again. A renewal is the first request
/// on the new connection; the next regular renewal would come ten seconds later.
#[tokio::test]
async fn the_holder_learns_at_once_that_the_server_lost_its_data() {
    let mut server = Redis::start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    let holder = keeper(proxy.address(), LONG).await;
    let guard = holder.mutex(&*name()).unwrap().lock().await.unwrap();
    let (asks, asked) = mpsc::channel();
    proxy.on_request(move |request| {
        asks.send((request.connection, request.words().join(" "), Instant::now())).unwrap();
        Act::Pass
    });
    server.restart_empty().unwrap();
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Forgotten);
    let lost = Instant::now();
    let asked: Vec<_> = asked.try_iter().collect();
    let (last, ..) = asked.last().unwrap();
    let mut asked = asked.iter().filter(|(connection, ..)| connection == last);
    let (_, _, greeted) = asked.find(|(_, words, _)| words.starts_with("CLIENT SETINFO")).unwrap();
    let renewals = asked.filter(|(_, words, _)| words.starts_with("EVALSHA")).count();
    // Once more where the server has to get the script first.
    assert!((1..=2).contains(&renewals), "{renewals}");
    eprintln!("heard {:?} after the first words", lost - *greeted);
    assert!(lost - *greeted < Duration::from_secs(6), "{:?}", lost - *greeted);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// A waiter on a server that forgets everything joins the line again and gets the lock, although no
/// client releases the forgotten lock.
#[tokio::test]
async fn a_waiter_outlasts_a_server_that_forgot() {
    let mut server = Redis::start().unwrap();
    let name = name();
    let (holder, other) =
        (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(other.mutex(&*name).unwrap().lock().into_future());
    until_waiting(&holder, &name, 1).await;
    server.kill().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart().unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    drop(guard);
}
