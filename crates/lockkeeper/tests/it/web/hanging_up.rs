//! The lock of a handler when its client disconnects.

use super::handlers::{Shop, locking};
use super::{answer, send, serve};

const REPORT: &str = "GET /report HTTP/1.1^Host: shop^Connection: close^^";
const ORDER: &str = "GET /order HTTP/1.1^Host: shop^Connection: close^^";

#[tokio::test]
async fn a_handler_whose_client_disconnects_is_dropped_with_its_lock() {
    let (shop, mut gone) = Shop::new();
    let connection = send(serve(locking(&shop)).await, REPORT).await;
    shop.work.begun.notified().await;
    assert!(shop.keeper.inspect("report").await.unwrap().is_held());
    drop(connection);
    gone.recv().await.unwrap();
    // The keeper would renew the guard for ever, so a free lock was released.
    let guard = shop.keeper.mutex("report").unwrap().lock().await.unwrap();
    assert_eq!(shop.work.done(), 0, "the work went on");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_handler_that_waits_when_its_client_hangs_up_leaves_the_line() {
    let (shop, mut gone) = Shop::new();
    let guard = shop.keeper.mutex("report").unwrap().lock().await.unwrap();
    let connection = send(serve(locking(&shop)).await, REPORT).await;
    while shop.keeper.inspect("report").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(connection);
    gone.recv().await.unwrap();
    while !shop.keeper.inspect("report").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn work_with_the_guard_goes_on_when_the_client_disconnects() {
    let (shop, mut gone) = Shop::new();
    let connection = send(serve(locking(&shop)).await, ORDER).await;
    shop.work.begun.notified().await;
    drop(connection);
    gone.recv().await.unwrap();
    let mutex = shop.keeper.mutex("order").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none(), "the lock went with the handler");
    assert_eq!(shop.work.done(), 0);
    shop.work.go_on.notify_one();
    let guard = mutex.lock().await.unwrap();
    assert_eq!(shop.work.done(), 1, "the lock was free before the work was done");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_stays_gets_its_answer() {
    let (shop, mut gone) = Shop::new();
    let server = serve(locking(&shop)).await;
    for (request, name, expected) in
        [(REPORT, "report", "report 1\n"), (ORDER, "order", "order 2\n")]
    {
        let connection = send(server, request).await;
        shop.work.go_on.notify_one();
        assert_eq!(answer(connection).await, (200, expected.to_owned()));
        gone.recv().await.unwrap();
        assert!(!shop.keeper.inspect(name).await.unwrap().is_held());
    }
}
