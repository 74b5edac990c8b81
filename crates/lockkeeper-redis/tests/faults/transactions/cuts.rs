//! Connections are lost, answers too, and callers go away.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockkeeper::optimistic::redis::Watched;
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::{Act, Message, Proxy};

use super::{Calls, less, once, patient, put, shared_with, take_one, value};
use crate::support::{TIME_LIMIT, hasty_store, store, within};

/// After so long a request without a reply is given up.
const HASTE: Duration = Duration::from_millis(1500);

/// The commands that came by each connection.
#[derive(Clone, Debug, Default)]
struct RequestLog(Arc<Mutex<HashMap<u64, Vec<String>>>>);

impl RequestLog {
    fn note(&self, request: &Message<'_>) {
        let word = request.words().first().cloned().unwrap_or_default();
        self.0.lock().unwrap().entry(request.connection).or_default().push(word);
    }

    /// Asserts that each EXEC is on the connection of its WATCH, behind it.
    fn no_exec_came_without_its_watch(&self) {
        for (connection, words) in &*self.0.lock().unwrap() {
            let mut watched = false;
            for word in words {
                match word.as_str() {
                    "WATCH" => watched = true,
                    "MULTI" => assert!(watched, "connection {connection}: {words:?}"),
                    "EXEC" => {
                        assert!(std::mem::take(&mut watched), "connection {connection}: {words:?}")
                    }
                    "UNWATCH" => watched = false,
                    _ => {}
                }
            }
        }
    }
}

/// The connection is lost after the keys were watched and read, and another client changes them: no
/// decision of the old look is written. The transaction looks again, on another connection.
#[tokio::test]
async fn a_connection_lost_between_watch_and_exec_writes_no_stale_decision() {
    let (server, key) = shared_with(7);
    let (proxy, request_log, calls) =
        (Proxy::resp(server.address()).unwrap(), RequestLog::default(), Calls::default());
    let log = request_log.clone();
    proxy.on_request(move |request| {
        log.note(request);
        Act::Pass
    });
    let transactions = store(proxy.address()).await.transactions();
    let taken = transactions.watch([&key]).policy(patient()).run(async |watched: Watched| {
        let changes = less(watched, key.clone()).await;
        if calls.next() == 1 {
            proxy.cut();
            put(server, &key, 100);
        }
        changes
    });
    within(TIME_LIMIT, taken).await.unwrap();
    assert_eq!((value(server, &key), calls.so_far()), (Some(99), 2));
    request_log.no_exec_came_without_its_watch();
}

/// Before, within and after each message in both directions, until a transaction ends before the
/// cut. The transaction is done once, or the caller gets an unknown outcome; then it is done at
/// most once. Later transactions are not disturbed.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_cut_at_any_step_is_done_once_or_unknown() {
    let manners: [fn(&Message<'_>) -> Act; 5] = [
        |_| Act::Cut,
        |message| Act::CutWithin(message.bytes.len() / 2),
        |message| Act::CutWithin(message.bytes.len() - 1),
        |_| Act::CutAfter,
        |_| Act::Reset,
    ];
    let mut unknown = 0;
    for manner in manners {
        for requests in [true, false] {
            let mut number = 1;
            while cut_at(number, requests, manner, &mut unknown).await {
                number += 1;
            }
            assert!(number > 5, "a transaction has more than {number} messages");
        }
    }
    assert!(unknown > 0, "no answer to EXEC was lost");
}

/// Returns whether the cut happened.
async fn cut_at(
    number: u64,
    requests: bool,
    manner: fn(&Message<'_>) -> Act,
    unknown: &mut usize,
) -> bool {
    let (server, key) = shared_with(7);
    let (proxy, request_log) = (Proxy::resp(server.address()).unwrap(), RequestLog::default());
    let transactions = store(proxy.address()).await.transactions();
    let (log, came) = (request_log.clone(), Calls::default());
    let count = came.clone();
    // The first connection is the store's.
    let decide = move |message: &Message<'_>| match message.connection > 1
        && count.next() as u64 == number
    {
        true => manner(message),
        false => Act::Pass,
    };
    match requests {
        true => proxy.on_request(move |message| {
            log.note(message);
            decide(message)
        }),
        false => {
            proxy.on_request(move |message| {
                log.note(message);
                Act::Pass
            });
            proxy.on_reply(decide);
        }
    }
    let taken =
        within(TIME_LIMIT, take_one(transactions.watch([&key]).policy(patient()), &key)).await;
    let happened = came.so_far() as u64 >= number;
    proxy.on_nothing();
    match taken {
        Ok(_) => assert_eq!(value(server, &key), Some(6), "message {number}"),
        Err(error) => {
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Unavailable, Effect::Unknown),
                "{error}"
            );
            assert!(
                error.to_string().contains("whether the transaction was done is not known"),
                "{error}"
            );
            *unknown += 1;
        }
    }
    let before = Mutex::new(None);
    let next = transactions.watch([&key]).policy(patient()).run(async |watched: Watched| {
        *before.lock().unwrap() = watched.read(&["GET", &key]).await?.number();
        less(watched, key.clone()).await
    });
    within(TIME_LIMIT, next).await.unwrap();
    let before = before.into_inner().unwrap().unwrap();
    assert!(before == 6 || before == 7, "{before}");
    assert_eq!(value(server, &key), Some(before - 1));
    request_log.no_exec_came_without_its_watch();
    happened
}

/// The answer to EXEC is lost, or late, or EXEC itself is late: the outcome is reported as unknown,
/// and EXEC is not repeated. It is done at most once.
#[tokio::test]
async fn a_lost_answer_to_exec_is_unknown_and_nothing_is_repeated() {
    for act in [Act::LoseReply, Act::HoldReply, Act::Hold] {
        let (server, key) = shared_with(7);
        let (proxy, calls) = (Proxy::resp(server.address()).unwrap(), Calls::default());
        let transactions = hasty_store(proxy.address(), HASTE).await.transactions();
        proxy.on_request(move |request| if request.is("EXEC") { act } else { Act::Pass });
        let taken = transactions.watch([&key]).policy(patient()).run(async |watched: Watched| {
            calls.next();
            less(watched, key.clone()).await
        });
        let error = within(TIME_LIMIT, taken).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown),
            "{error}"
        );
        let printed = error.to_string();
        assert!(printed.contains(&key) && printed.contains("Try: a look at the data"), "{printed}");
        assert_eq!(value(server, &key), Some(if act == Act::Hold { 7 } else { 6 }), "{act:?}");
        proxy.on_nothing();
        proxy.release();
        // The held message arrives, or is lost with its connection.
        proxy.until(|seen| seen.open == 1).await.unwrap();
        let left = value(server, &key).unwrap();
        assert!(left == 6 || (left == 7 && act == Act::Hold), "{act:?}: {left}");
        assert_eq!(calls.so_far(), 1);
        take_one(transactions.watch([&key]).policy(once()), &key).await.unwrap();
    }
}

/// A policy whose time is over while EXEC is under way does not report that EXEC was not done.
#[tokio::test]
async fn time_that_is_over_before_the_answer_to_exec_is_unknown_too() {
    let (server, key) = shared_with(7);
    let proxy = Proxy::resp(server.address()).unwrap();
    let transactions = store(proxy.address()).await.transactions();
    proxy.on_request(|request| if request.is("EXEC") { Act::HoldReply } else { Act::Pass });
    // Enough time to come this far, and less than the store's time-out of a request.
    let policy = patient().within(Duration::from_secs(2));
    let error = take_one(transactions.watch([&key]).policy(policy), &key).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert_eq!(value(server, &key), Some(6));
    proxy.on_request(|request| if request.is("WATCH") { Act::HoldReply } else { Act::Pass });
    let error = take_one(transactions.watch([&key]).policy(patient().within(HASTE)), &key)
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert_eq!(value(server, &key), Some(6));
}

/// Polls a future this many times and drops it then; returns whether it was done by then.
async fn dropped_after(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The caller goes away at the first await, at the second, and so on: the transaction is done as a
/// whole or not at all. Its connection watches nothing any more, and older watches do not disturb
/// the next transaction on it. In the end no connection is left.
#[tokio::test]
async fn a_transaction_that_is_dropped_at_any_await_leaves_nothing_watched() {
    let (server, key) = shared_with(0);
    let (proxy, request_log) = (Proxy::resp(server.address()).unwrap(), RequestLog::default());
    let log = request_log.clone();
    proxy.on_request(move |request| {
        log.note(request);
        Act::Pass
    });
    let transactions = store(proxy.address()).await.transactions();
    let mut polls = 1;
    loop {
        put(server, &key, 7);
        let calling = take_one(transactions.watch([&key]).policy(patient()), &key);
        let through = within(TIME_LIMIT, dropped_after(polls, calling)).await;
        let left = value(server, &key).unwrap();
        assert!(left == 6 || (left == 7 && !through), "{left} after {polls} polls");
        put(server, &key, 100);
        take_one(transactions.watch([&key]).policy(once()), &key).await.unwrap();
        assert_eq!(value(server, &key), Some(99), "after {polls} polls");
        if through {
            break;
        }
        // With a new connection, and with one that there was.
        polls += 1;
    }
    assert!(polls > 4, "a transaction has more than {polls} awaits");
    request_log.no_exec_came_without_its_watch();
    drop(transactions);
    proxy.until(|seen| seen.open == 0).await.unwrap();
}

/// A transaction was done in a runtime that nobody drives afterwards. Its connection is of no use
/// to the transactions of other runtimes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_runtime_that_stands_still_holds_up_no_transaction_of_another_runtime() {
    let (server, key) = shared_with(7);
    let transactions = store(server.address()).await.transactions();
    let there = take_one(transactions.watch([&key]), &key);
    let (ends, parked) = std::sync::mpsc::channel::<()>();
    let (done, taken) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        done.send(runtime.block_on(there)).unwrap();
        // The runtime is there still.
        let _ = parked.recv();
    });
    within(TIME_LIMIT, taken).await.unwrap().unwrap();
    let policy = lockkeeper::optimistic::Policy::default().within(Duration::from_secs(10));
    let here = take_one(transactions.watch([&key]).policy(policy), &key).await;
    drop(ends);
    thread.join().unwrap();
    here.unwrap();
    assert_eq!(value(server, &key), Some(5));
}

/// The runtime of the store stands still from the decision on. The decision changes nothing, so its
/// caller gets it in the time of the policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_decision_ends_although_the_runtime_of_the_store_stands_still() {
    let (server, key) = shared_with(7);
    let (opened, open) = tokio::sync::oneshot::channel();
    let (park, parks) = tokio::sync::oneshot::channel::<()>();
    let (stands, standing) = std::sync::mpsc::channel::<()>();
    let (ends, parked) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            drop(opened.send(store(server.address()).await.transactions()));
            drop(parks.await);
            stands.send(()).unwrap();
            // The end of the test ends it.
            let _ = parked.recv();
        });
    });
    let transactions = within(TIME_LIMIT, open).await.unwrap();
    let policy = lockkeeper::optimistic::Policy::default().within(Duration::from_secs(1));
    let mut park = Some(park);
    let decided = transactions.watch([&key]).policy(policy).run(move |_| {
        park.take().unwrap().send(()).unwrap();
        standing.recv().unwrap();
        std::future::ready(Err(lockkeeper::Error::invalid("nothing is to be changed")))
    });
    let error = within(TIME_LIMIT, decided).await.unwrap_err();
    assert_eq!(error.kind(), lockkeeper::ErrorKind::Invalid, "{error}");
    drop(ends);
    thread.join().unwrap();
}
