//! Locks in a web service: clients that disconnect, and resources that refuse older holders. The
//! server and the connections are real.

mod ending;
mod fenced;
mod handlers;
mod hanging_up;

use std::net::SocketAddr;

use axum::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves until the test ends.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Opens a connection and sends a request, with `^` for the end of a line.
async fn send(to: SocketAddr, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(to).await.unwrap();
    connection.write_all(request.replace('^', "\r\n").as_bytes()).await.unwrap();
    connection
}

/// The status and the body of the answer. The request has to ask for the end of the connection.
async fn answer(mut connection: TcpStream) -> (u16, String) {
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The tests run the programs of the documentation, letter by letter.
#[test]
fn the_handlers_of_the_documentation_are_those_of_these_tests() {
    let documentation = include_str!("../../../../docs/web.md");
    let blocks: Vec<&str> =
        documentation.split("```rust\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert_eq!(blocks.len(), 6);
    for block in blocks {
        assert!(include_str!("web/handlers.rs").contains(block), "not tested:\n{block}");
    }
}
