//! The answers to a client when a lock fails, and the end of a server with locks.

use axum::http::StatusCode;
use lockkeeper::ErrorKind;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::handlers::{Failure, Shop, serve_until};
use super::{answer, send};

const KINDS: [ErrorKind; 14] = [
    ErrorKind::Timeout,
    ErrorKind::Unavailable,
    ErrorKind::Lost,
    ErrorKind::SessionLost,
    ErrorKind::Mismatch,
    ErrorKind::Unsupported,
    ErrorKind::Denied,
    ErrorKind::Invalid,
    ErrorKind::QueueFull,
    ErrorKind::WouldDeadlock,
    ErrorKind::Conflict,
    ErrorKind::Forked,
    ErrorKind::Closed,
    ErrorKind::Internal,
];

/// The status of this kind in the table of the documentation.
fn documented(kind: ErrorKind) -> StatusCode {
    let mut rows = include_str!("../../../../../docs/web.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| "));
    let of_kind = |row: &&str| {
        row.split(" | ").next().is_some_and(|kinds| kinds.contains(&format!("`{kind:?}`")))
    };
    let row = rows.find(of_kind).unwrap_or_else(|| panic!("{kind:?} is not in the table"));
    row.split(" | ").nth(1).unwrap()[..3].parse().unwrap()
}

#[test]
fn each_kind_of_error_has_the_status_that_is_documented() {
    for kind in KINDS {
        let failure = Failure::from(lockkeeper::Error::new(kind, "it failed"));
        assert_eq!(failure.0, documented(kind), "{kind:?}");
    }
}

#[tokio::test]
async fn a_stopped_server_answers_open_requests_before_its_keeper_ends() {
    let (shop, _gone) = Shop::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or_default() };
    let server = tokio::spawn(serve_until(stopped, listener, shop.clone()));
    let connection = send(address, "GET /report HTTP/1.1^Host: shop^Connection: close^^").await;
    shop.work.begun.notified().await;
    stop.send(()).unwrap();
    shop.work.go_on.notify_one();
    assert_eq!(answer(connection).await, (200, "report 1\n".to_owned()));
    server.await.unwrap().unwrap();
    let error = shop.keeper.mutex("report").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
