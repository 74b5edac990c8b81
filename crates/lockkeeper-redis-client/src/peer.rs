//! The other end of a connection, for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::time::Clock;
use crate::wire::decoder::{Decoder, Incoming};
use crate::wire::{Endpoint, Link, Listener, Request, Settings};

/// The answer to HELLO 3.
pub const HELLO: &str = "%4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n\
    $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

/// The run of the peer in `INFO`.
pub const RUN: &str = "a-run";

/// The history of the peer's data in `INFO`.
pub const HISTORY: &str = "a-history";

/// Longer than any step that is not meant to end by it.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Waits for a future that must complete.
pub async fn within<F: Future>(what: F) -> F::Output {
    Clock::boot().timeout(TIME_LIMIT, what).await.expect("it did not happen")
}

/// A server that listens.
#[derive(Debug)]
pub struct Peer {
    listener: TcpListener,
    /// The address of the server.
    pub endpoint: Endpoint,
}

impl Peer {
    /// A server on a free port.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, endpoint: Endpoint { host: "127.0.0.1".to_owned(), port } }
    }

    /// The next connection, before the handshake.
    pub async fn accept(&self) -> PeerConnection {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        PeerConnection { stream, decoder: Decoder::new(false), is_change: false }
    }

    /// The next connection, after the handshake.
    pub async fn connection(&self) -> PeerConnection {
        let mut remote = self.accept().await;
        remote.greet().await;
        remote
    }

    /// A link to this peer, and the peer's end of the connection.
    pub async fn link(&self, settings: Settings) -> (Link, PeerConnection, Received) {
        let (listener, received) = listener();
        let link = Link::open(self.endpoint.clone(), Arc::new(settings), listener);
        let remote = self.connection().await;
        within(link.ready()).await.unwrap();
        (link, remote, received)
    }
}

/// One connection, from the other side.
pub struct PeerConnection {
    stream: TcpStream,
    decoder: Decoder,
    /// The last request begins or ends a subscription: a question follows.
    is_change: bool,
}

impl std::fmt::Debug for PeerConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerConnection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl PeerConnection {
    /// Makes the server's part of the handshake.
    pub async fn greet(&mut self) {
        assert_eq!(self.request().await[0], "HELLO");
        self.say(HELLO).await;
        self.prepare().await;
    }

    /// The same for a server that knows only RESP2.
    pub async fn greet_in_resp2(&mut self) {
        assert_eq!(self.request().await[0], "HELLO");
        self.say("-ERR unknown command 'HELLO'\r\n").await;
        self.prepare().await;
    }

    /// Answers all requests behind HELLO, to the last one.
    pub async fn prepare(&mut self) {
        loop {
            let request = self.request().await;
            match (request[0].as_str(), request.get(1).map(String::as_str)) {
                ("INFO", Some("replication")) => {
                    self.say(&format!("+master_replid:{HISTORY}\r\n")).await;
                }
                ("INFO", _) => self.say(&format!("+run_id:{RUN}\r\n")).await,
                _ => self.say("+OK\r\n").await,
            }
            if request.get(1).is_some_and(|word| word == "SETINFO") {
                return;
            }
        }
    }

    /// The next request; empty at the end of the connection. Answers the question behind the
    /// beginning or the end of a subscription, for which the answer is to be given before.
    pub async fn next(&mut self) -> Vec<String> {
        let mut request = self.read().await;
        if std::mem::take(&mut self.is_change) && request.len() == 2 && request[0] == "PING" {
            self.repeat(&request[1]).await;
            request = self.read().await;
        }
        self.is_change = request.first().is_some_and(|word| word.ends_with("SUBSCRIBE"));
        request
    }

    /// Answers the question whether the server is there.
    pub async fn pong(&mut self) {
        let request = self.request().await;
        assert_eq!(request[0], "PING");
        self.repeat(&request[1]).await;
    }

    /// Answers with this word.
    pub async fn repeat(&mut self, word: &str) {
        self.say(&format!("${}\r\n{word}\r\n", word.len())).await;
    }

    async fn read(&mut self) -> Vec<String> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(Incoming::Reply(Value::Array(parts))) = self.decoder.next().unwrap() {
                return parts.iter().map(text).collect();
            }
            match within(self.stream.read(&mut chunk)).await {
                Ok(0) | Err(_) => return Vec::new(),
                Ok(count) => self.decoder.feed(&chunk[..count]),
            }
        }
    }

    /// The next request of the client.
    pub async fn request(&mut self) -> Vec<String> {
        let request = self.next().await;
        assert!(!request.is_empty(), "the connection was closed");
        request
    }

    /// Writes these bytes.
    pub async fn say(&mut self, what: &str) {
        within(self.stream.write_all(what.as_bytes())).await.unwrap();
    }
}

/// The text of a part of a request.
pub fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?} is no part of a request"),
    }
}

/// A call of a listener.
#[derive(Debug, PartialEq, Eq)]
pub enum Sound {
    /// A message: its channel and its payload.
    Pushed(String, String),
    /// The subscription to this channel stands.
    Subscribed(String),
    /// The subscription to this channel does not stand.
    Unsubscribed(String),
    /// The server refuses this channel.
    Refused(String),
    /// A connection stands again.
    Reconnected,
    /// The connection is lost.
    Disconnected,
}

#[derive(Debug)]
struct Recorder(mpsc::UnboundedSender<Sound>);

/// The calls of a listener, in order.
#[derive(Debug)]
pub struct Received(mpsc::UnboundedReceiver<Sound>);

impl Received {
    /// The next call.
    pub async fn next(&mut self) -> Sound {
        within(self.0.recv()).await.unwrap()
    }

    /// The calls that have come already.
    pub fn now(&mut self) -> Vec<Sound> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// A listener, and what it receives.
pub fn listener() -> (Arc<dyn Listener>, Received) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Arc::new(Recorder(sender)), Received(receiver))
}

impl Recorder {
    fn note(&self, sound: Sound) {
        // The test may have ended.
        drop(self.0.send(sound));
    }
}

impl Listener for Recorder {
    fn pushed(&self, channel: &[u8], payload: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.note(Sound::Pushed(text(channel), text(payload)));
    }

    fn subscribed(&self, channel: &[u8]) {
        self.note(Sound::Subscribed(String::from_utf8_lossy(channel).into_owned()));
    }

    fn unsubscribed(&self, channel: &[u8]) {
        self.note(Sound::Unsubscribed(String::from_utf8_lossy(channel).into_owned()));
    }

    fn refused(&self, channel: &[u8]) {
        self.note(Sound::Refused(String::from_utf8_lossy(channel).into_owned()));
    }

    fn reconnected(&self) {
        self.note(Sound::Reconnected);
    }

    fn disconnected(&self) {
        self.note(Sound::Disconnected);
    }
}

/// Limits so long that nothing ends by them.
pub fn patient() -> Settings {
    Settings { timeout: TIME_LIMIT, connect_timeout: TIME_LIMIT, ..Settings::default() }
}

/// A short limit of time for each answer.
pub fn impatient() -> Settings {
    Settings {
        timeout: Duration::from_millis(200),
        connect_timeout: TIME_LIMIT,
        ..Settings::default()
    }
}

/// Short limits, but longer than a loaded machine stands still. So a peer that answers at once
/// answers in time.
pub fn tolerant() -> Settings {
    Settings { timeout: Duration::from_millis(1500), ..impatient() }
}

/// A request that the peer can distinguish from others.
pub fn echo(text: &str) -> Request {
    Request::command(&[b"ECHO", text.as_bytes()])
}
