//! The proxy does what it promises, and nothing else.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper_live::{Act, Proxy, Way, redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough for a message to come, short enough to wait for a message that does not come.
const A_WHILE: Duration = Duration::from_millis(150);

/// A client that sends given messages, and shows the received ones.
struct Client(TcpStream);

impl Client {
    async fn of(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(proxy.address()).await.unwrap())
    }

    async fn say(&mut self, words: &[&str]) {
        self.0.write_all(&packed(words)).await.unwrap();
    }

    /// The next bytes, as many as the expected answer has.
    async fn reads(&mut self, expected: &str) {
        let mut answer = vec![0; expected.len()];
        let reading = self.0.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect(expected).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }

    /// Reads up to and including this text.
    async fn reads_up_to(&mut self, last: &str) {
        let mut read = Vec::new();
        while !read.ends_with(last.as_bytes()) {
            let byte = tokio::time::timeout(Duration::from_secs(20), self.0.read_u8()).await;
            read.push(byte.expect(last).unwrap());
        }
    }

    async fn reads_nothing(&mut self) {
        let read = tokio::time::timeout(A_WHILE, self.0.read_u8()).await;
        assert!(read.is_err(), "{read:?}");
    }

    /// The end of the connection: end of file, or an error.
    async fn reads_the_end(&mut self) -> Option<ErrorKind> {
        let end = tokio::time::timeout(Duration::from_secs(20), self.0.read(&mut [0; 1]))
            .await
            .expect("the end");
        end.map(|read| assert_eq!(read, 0)).err().map(|error| error.kind())
    }
}

fn packed(words: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
    request.into_bytes()
}

fn server() -> SocketAddr {
    redis().unwrap().address()
}

/// The count of a key, read past the proxy.
fn count(key: &str) -> Option<u32> {
    redis().unwrap().query(&["GET", key]).unwrap()
}

#[tokio::test]
async fn without_faults_it_is_not_there() {
    for proxy in [Proxy::resp(server()).unwrap(), Proxy::raw(server()).unwrap()] {
        let large = "x".repeat(3_000_000);
        let mut client = Client::of(&proxy).await;
        client.say(&["ECHO", &large]).await;
        client.reads(&format!("$3000000\r\n{large}\r\n")).await;
        client.0.write_all(b"PING\r\nPI").await.unwrap();
        client.0.write_all(b"NG\r\n").await.unwrap();
        client.reads("+PONG\r\n+PONG\r\n").await;
        client.0.shutdown().await.unwrap();
        assert_eq!(client.reads_the_end().await, None);
        let seen = proxy.until(|seen| seen.open == 0).await.unwrap();
        assert_eq!((seen.connections, seen.lost, seen.held), (1, 0, 0));
        assert!(seen.bytes_to_server > 3_000_000 && seen.bytes_to_client > 3_000_000);
    }
}

#[tokio::test]
async fn it_reports_what_came() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.until(|seen| seen.connections == 1).await.unwrap();
    client.0.write_all(&[packed(&["PING"]), packed(&["ECHO", "a"])].concat()).await.unwrap();
    let seen = proxy.until(|seen| seen.requests == 2 && seen.replies == 2).await.unwrap();
    assert_eq!(seen.open, 1);
    drop(client);
    tokio::task::spawn_blocking(move || proxy.wait_until(|seen| seen.open == 0).unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn delays_are_of_one_way_and_do_not_add_up() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.delay(Way::ToClient, A_WHILE);
    let start = Instant::now();
    for _ in 0..20 {
        client.say(&["PING"]).await;
    }
    client.reads(&"+PONG\r\n".repeat(20)).await;
    let took = start.elapsed();
    assert!(A_WHILE <= took && took < A_WHILE * 15, "{took:?}");
    proxy.heal();
    proxy.delay(Way::ToServer, A_WHILE);
    let start = Instant::now();
    client.say(&["PING"]).await;
    client.reads("+PONG\r\n").await;
    assert!(start.elapsed() >= A_WHILE);
}

#[tokio::test]
async fn what_is_held_comes_when_it_is_released() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.hold(Way::ToClient);
    client.say(&["INCR", "proxy:held"]).await;
    client.say(&["INCR", "proxy:held"]).await;
    proxy.until(|seen| seen.held == 2).await.unwrap();
    assert_eq!(count("proxy:held"), Some(2));
    client.reads_nothing().await;
    proxy.release();
    client.reads(":1\r\n:2\r\n").await;
    proxy.hold(Way::ToServer);
    client.say(&["INCR", "proxy:held"]).await;
    client.reads_nothing().await;
    assert_eq!(count("proxy:held"), Some(2));
    proxy.heal();
    client.reads(":3\r\n").await;
}

#[tokio::test]
async fn a_black_hole_swallows_even_the_end() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.black_hole(Way::ToServer);
    client.say(&["INCR", "proxy:hole"]).await;
    proxy.until(|seen| seen.lost == 1).await.unwrap();
    client.reads_nothing().await;
    proxy.heal();
    client.say(&["INCR", "proxy:hole"]).await;
    client.reads(":1\r\n").await;
    proxy.black_hole(Way::Both);
    client.0.shutdown().await.unwrap();
    proxy.until(|seen| seen.lost == 2).await.unwrap();
    client.reads_nothing().await;
    assert_eq!(proxy.seen().open, 1);
}

#[tokio::test]
async fn slices_come_one_after_the_other() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.slow(Way::ToClient, 1, Duration::from_millis(10));
    let start = Instant::now();
    client.say(&["ECHO", "0123456789"]).await;
    let answer = "$10\r\n0123456789\r\n";
    // One byte, unless this test is stopped for longer than a pause.
    let first = client.0.read(&mut [0; 100]).await.unwrap();
    assert!(first < answer.len());
    client.reads(&answer[first..]).await;
    assert!(start.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn connections_are_cut_reset_and_refused() {
    let proxy = Proxy::resp(server()).unwrap();
    let (mut one, mut other) = (Client::of(&proxy).await, Client::of(&proxy).await);
    proxy.until(|seen| seen.connections == 2).await.unwrap();
    proxy.refuse();
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    one.say(&["PING"]).await;
    one.reads("+PONG\r\n").await;
    proxy.cut();
    assert_eq!((one.reads_the_end().await, other.reads_the_end().await), (None, None));
    proxy.accept().unwrap();
    let mut client = Client::of(&proxy).await;
    client.say(&["PING"]).await;
    client.reads("+PONG\r\n").await;
    proxy.reset();
    assert_eq!(client.reads_the_end().await, Some(ErrorKind::ConnectionReset));
    drop((one, other, client));
    proxy.until(|seen| seen.open == 0).await.unwrap();
}

#[tokio::test]
async fn a_proxy_that_is_dropped_ends_its_connections() {
    let proxy = Proxy::resp(server()).unwrap();
    let address = proxy.address();
    let mut client = Client::of(&proxy).await;
    client.say(&["PING"]).await;
    client.reads("+PONG\r\n").await;
    drop(proxy);
    client.reads_the_end().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn it_goes_to_another_server() {
    let other = lockkeeper_live::Redis::start().unwrap();
    other.run(&["SET", "proxy:where", "other"]).unwrap();
    let proxy = Proxy::resp(server()).unwrap();
    proxy.set_target(other.address());
    let mut client = Client::of(&proxy).await;
    client.say(&["GET", "proxy:where"]).await;
    client.reads("$5\r\nother\r\n").await;
    drop(other);
    client.reads_the_end().await;
}

#[tokio::test]
async fn a_request_is_done_and_its_reply_is_lost() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.on_request(|request| if request.is("incr") { Act::LoseReply } else { Act::Pass });
    client.say(&["PING"]).await;
    client.say(&["INCR", "proxy:lost"]).await;
    client.reads("+PONG\r\n").await;
    client.reads_the_end().await;
    assert_eq!(count("proxy:lost"), Some(1));
    assert_eq!(proxy.seen().lost, 1);
}

#[tokio::test]
async fn a_request_is_done_and_its_reply_comes_late() {
    let proxy = Proxy::resp(server()).unwrap();
    let (mut client, mut other) = (Client::of(&proxy).await, Client::of(&proxy).await);
    proxy.on_request(|request| if request.contains("late") { Act::HoldReply } else { Act::Pass });
    client.say(&["PING"]).await;
    client.say(&["INCR", "proxy:late"]).await;
    client.say(&["PING"]).await;
    client.reads("+PONG\r\n").await;
    proxy.until(|seen| seen.held == 1).await.unwrap();
    assert_eq!(count("proxy:late"), Some(1));
    client.reads_nothing().await;
    other.say(&["PING"]).await;
    other.reads("+PONG\r\n").await;
    proxy.release();
    client.reads(":1\r\n+PONG\r\n").await;
}

#[tokio::test]
async fn a_request_comes_twice_and_is_answered_once() {
    for hello in [false, true] {
        let key = format!("proxy:twice:{hello}");
        let proxy = Proxy::resp(server()).unwrap();
        proxy.on_request(|request| if request.is("INCR") { Act::Twice } else { Act::Pass });
        let mut client = Client::of(&proxy).await;
        if hello {
            // Messages that are no replies: the proxy must not take them for the replies to later
            // requests.
            client.say(&["HELLO", "3"]).await;
            client.say(&["SUBSCRIBE", "proxy:one", "proxy:two"]).await;
            client.reads_up_to("proxy:two\r\n:2\r\n").await;
        }
        client.say(&["INCR", &key]).await;
        client.say(&["INCR", &key]).await;
        client.say(&["PING"]).await;
        client.reads(":1\r\n:3\r\n+PONG\r\n").await;
        assert_eq!(count(&key), Some(4));
    }
}

#[tokio::test]
async fn a_pushed_message_is_lost_or_comes_twice() {
    let proxy = Proxy::resp(server()).unwrap();
    let mut client = Client::of(&proxy).await;
    proxy.on_reply(|reply| match (reply.is_push(), reply.words().last().map(String::as_str)) {
        (true, Some("lost")) => Act::Drop,
        (true, Some("doubled")) => Act::Twice,
        _ => Act::Pass,
    });
    client.say(&["HELLO", "3"]).await;
    client.say(&["SUBSCRIBE", "proxy:push"]).await;
    client.reads_up_to("proxy:push\r\n:1\r\n").await;
    for text in ["lost", "doubled", "other"] {
        redis().unwrap().run(&["PUBLISH", "proxy:push", text]).unwrap();
    }
    let message = |text: &str| {
        format!(">3\r\n$7\r\nmessage\r\n$10\r\nproxy:push\r\n${}\r\n{text}\r\n", text.len())
    };
    client.reads(&[message("doubled"), message("doubled"), message("other")].concat()).await;
}

#[tokio::test]
async fn a_connection_ends_at_any_byte_of_any_message() {
    let request = packed(&["INCR", "proxy:cut"]);
    for bytes in 0..=request.len() {
        let before = count("proxy:cut").unwrap_or_default();
        let proxy = Proxy::resp(server()).unwrap();
        proxy.on_request(
            move |request| if request.number == 2 { Act::CutWithin(bytes) } else { Act::Pass },
        );
        let mut client = Client::of(&proxy).await;
        client.say(&["PING"]).await;
        client.reads("+PONG\r\n").await;
        client.0.write_all(&request).await.unwrap();
        let _ = client.0.read_to_end(&mut Vec::new()).await;
        proxy.until(|seen| seen.open == 0).await.unwrap();
        let done = redis().unwrap().query::<u32>(&["INCRBY", "proxy:cut", "0"]).unwrap() - before;
        assert!(done <= u32::from(bytes == request.len()), "{done} after {bytes} bytes");
    }
}

#[tokio::test]
async fn a_connection_ends_before_and_after_a_message() {
    for (act, answer, kind) in [
        (Act::Cut, "", None),
        (Act::CutAfter, "+PONG\r\n", None),
        (Act::CutWithin(3), "+PO", None),
        (Act::LoseReply, "", None),
        (Act::Reset, "", Some(ErrorKind::ConnectionReset)),
    ] {
        let proxy = Proxy::resp(server()).unwrap();
        proxy.on_reply(move |_| act);
        let mut client = Client::of(&proxy).await;
        client.say(&["PING"]).await;
        client.reads(answer).await;
        assert_eq!(client.reads_the_end().await, kind, "{act:?}");
    }
}

#[tokio::test]
async fn what_is_seen_on_its_way_can_be_sent_again_later() {
    let proxy = Proxy::resp(server()).unwrap();
    let (sender, kept) = std::sync::mpsc::channel();
    proxy.on_request(move |request| {
        sender.send(request.bytes.to_vec()).unwrap();
        Act::Pass
    });
    let mut client = Client::of(&proxy).await;
    client.say(&["INCR", "proxy:again"]).await;
    client.reads(":1\r\n").await;
    proxy.on_nothing();
    client.say(&["INCR", "proxy:again"]).await;
    client.reads(":2\r\n").await;
    let copies: Vec<Vec<u8>> = kept.iter().collect();
    assert_eq!(copies, [packed(&["INCR", "proxy:again"])]);
    assert_eq!(redis().unwrap().send::<u32>(&copies[0]).unwrap(), 3);
}
