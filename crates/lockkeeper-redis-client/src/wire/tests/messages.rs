//! Subscriptions, and their messages.

use redis::Value;

use crate::peer::{Peer, PeerConnection, Sound, echo, patient, within};

const MESSAGE: &str = ">3\r\n$7\r\nmessage\r\n$4\r\nmine\r\n$5\r\nhello\r\n";

fn confirmed(kind: &str, channel: &str) -> String {
    format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:1\r\n", kind.len(), channel.len())
}

async fn subscribe(remote: &mut PeerConnection, command: &str, channel: &str) {
    assert_eq!(remote.request().await, [command, channel]);
    remote.say(&confirmed(&command.to_lowercase(), channel)).await;
}

fn hello() -> Sound {
    Sound::Pushed("mine".to_owned(), "hello".to_owned())
}

#[tokio::test]
async fn a_push_between_replies_disturbs_no_reply_wherever_the_bytes_are_cut() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"mine".to_vec(), false);
    subscribe(&mut remote, "SUBSCRIBE", "mine").await;
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    let said = format!("{MESSAGE}:1\r\n{MESSAGE}{MESSAGE}$3\r\ntwo\r\n{MESSAGE}");
    for cut in 0..said.len() {
        let (one, two) = (link.send(echo("1")), link.send(echo("2")));
        remote.request().await;
        remote.request().await;
        remote.say(&said[..cut]).await;
        // Lets the driver read the first half by itself.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        remote.say(&said[cut..]).await;
        assert_eq!(within(one).await, Ok(Value::Int(1)), "cut at {cut}");
        assert_eq!(within(two).await, Ok(Value::BulkString(b"two".to_vec())), "cut at {cut}");
        for _ in 0..4 {
            assert_eq!(received.next().await, hello(), "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_subscription_precedes_the_requests_that_are_sent_after_it() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"mine".to_vec(), false);
    link.subscribe(b"mine".to_vec(), false);
    link.subscribe(b"shard".to_vec(), true);
    let answer = link.send(echo("x"));
    subscribe(&mut remote, "SUBSCRIBE", "mine").await;
    subscribe(&mut remote, "SSUBSCRIBE", "shard").await;
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
    assert_eq!(
        received.now(),
        [Sound::Subscribed("mine".to_owned()), Sound::Subscribed("shard".to_owned())]
    );
}

#[tokio::test]
async fn after_a_lost_connection_every_subscription_is_made_again_before_anything_else() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"gone".to_vec(), false);
    link.subscribe(b"mine".to_vec(), false);
    subscribe(&mut remote, "SUBSCRIBE", "gone").await;
    subscribe(&mut remote, "SUBSCRIBE", "mine").await;
    assert_eq!(received.next().await, Sound::Subscribed("gone".to_owned()));
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    link.unsubscribe(b"gone", false);
    subscribe(&mut remote, "UNSUBSCRIBE", "gone").await;
    drop(remote);
    assert_eq!(received.next().await, Sound::Disconnected);
    // The same while there is no connection.
    link.subscribe(b"shard".to_vec(), true);
    let answer = link.send(echo("x"));
    let mut remote = peer.connection().await;
    let mut channels = Vec::new();
    for _ in 0..2 {
        let request = remote.request().await;
        remote.say(&confirmed(&request[0].to_lowercase(), &request[1])).await;
        channels.push(request[1].clone());
    }
    channels.sort();
    assert_eq!(channels, ["mine", "shard"]);
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(&format!("{MESSAGE}:1\r\n")).await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
    let mut sounds = received.now();
    assert_eq!(sounds.remove(0), Sound::Reconnected);
    assert_eq!(sounds.len(), 3, "{sounds:?}");
    for channel in channels {
        assert!(sounds.contains(&Sound::Subscribed(channel)), "{sounds:?}");
    }
    assert_eq!(sounds[2], hello());
}

#[tokio::test]
async fn a_refused_or_ended_subscription_is_reported_and_takes_no_reply() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"secret".to_vec(), false);
    link.subscribe(b"shard".to_vec(), true);
    let answer = link.send(echo("x"));
    assert_eq!(remote.request().await[1], "secret");
    remote.say("-NOPERM this user has no permissions to access one of the channels\r\n").await;
    subscribe(&mut remote, "SSUBSCRIBE", "shard").await;
    remote.request().await;
    remote.say(&format!("{}:1\r\n", confirmed("sunsubscribe", "shard"))).await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
    let text = ["secret", "shard", "shard"].map(str::to_owned);
    let [secret, stands, ended] = text;
    assert_eq!(
        received.now(),
        [Sound::Refused(secret), Sound::Subscribed(stands), Sound::Unsubscribed(ended)]
    );
    link.unsubscribe(b"secret", false);
    assert_eq!(remote.request().await, ["UNSUBSCRIBE", "secret"]);
    remote.say(&confirmed("unsubscribe", "secret")).await;
    // A subscription that has ended can begin again.
    link.subscribe(b"shard".to_vec(), true);
    subscribe(&mut remote, "SSUBSCRIBE", "shard").await;
    assert_eq!(received.next().await, Sound::Subscribed("shard".to_owned()));
}

#[tokio::test]
async fn a_refused_subscription_is_repeated_until_it_is_confirmed() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"mine".to_vec(), false);
    for refusal in ["-BUSY Redis is busy running a script\r\n", "-NOPERM this user may not\r\n"] {
        assert_eq!(remote.request().await, ["SUBSCRIBE", "mine"]);
        remote.say(refusal).await;
    }
    subscribe(&mut remote, "SUBSCRIBE", "mine").await;
    // The listener learns the refusal once.
    assert_eq!(received.next().await, Sound::Refused("mine".to_owned()));
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    let answer = link.send(echo("x"));
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn an_end_that_was_asked_for_is_not_reported() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"shard".to_vec(), true);
    link.unsubscribe(b"shard", true);
    let answer = link.send(echo("x"));
    subscribe(&mut remote, "SSUBSCRIBE", "shard").await;
    subscribe(&mut remote, "SUNSUBSCRIBE", "shard").await;
    remote.request().await;
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
    assert_eq!(received.now(), []);
}

/// A slot leaves the node, and comes back.
#[tokio::test]
async fn in_resp2_a_channel_that_the_server_ended_is_asked_for_again() {
    let peer = Peer::new().await;
    let (listener, mut received) = crate::peer::listener();
    let link =
        super::super::Link::open(peer.endpoint.clone(), std::sync::Arc::new(patient()), listener);
    link.subscribe(b"mine".to_vec(), true);
    let mut main = peer.accept().await;
    main.greet_in_resp2().await;
    let mut side = peer.accept().await;
    side.prepare().await;
    assert_eq!(side.request().await, ["SSUBSCRIBE", "mine"]);
    side.say("*3\r\n$10\r\nssubscribe\r\n$4\r\nmine\r\n:1\r\n").await;
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    side.say("*3\r\n$12\r\nsunsubscribe\r\n$4\r\nmine\r\n:0\r\n").await;
    assert_eq!(received.next().await, Sound::Unsubscribed("mine".to_owned()));
    link.subscribe(b"mine".to_vec(), true);
    assert_eq!(side.request().await, ["SSUBSCRIBE", "mine"]);
}

#[tokio::test]
async fn a_link_in_a_runtime_that_has_ended_says_so() {
    let peer = Peer::new().await;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let (listener, _received) = crate::peer::listener();
    let link = {
        let _entered = handle.enter();
        super::super::Link::open(peer.endpoint.clone(), std::sync::Arc::new(patient()), listener)
    };
    let error = within(link.send(echo("x"))).await.unwrap_err();
    assert!(error.to_string().contains("nobody serves it any more"), "{error}");
    within(link.ready()).await.unwrap_err();
}

#[tokio::test]
async fn in_resp2_messages_have_a_connection_of_their_own() {
    let peer = Peer::new().await;
    let (listener, mut received) = crate::peer::listener();
    let link =
        super::super::Link::open(peer.endpoint.clone(), std::sync::Arc::new(patient()), listener);
    link.subscribe(b"mine".to_vec(), false);
    let mut main = peer.accept().await;
    main.greet_in_resp2().await;
    assert!(!within(link.ready()).await.unwrap().resp3);
    let mut side = peer.accept().await;
    side.prepare().await;
    assert_eq!(side.request().await, ["SUBSCRIBE", "mine"]);
    side.say("*3\r\n$9\r\nsubscribe\r\n$4\r\nmine\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$4\r\nmine\r\n$5\r\nhello\r\n").await;
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    assert_eq!(received.next().await, hello());
    // On the connection for requests an array is an answer, whatever it begins with.
    let answer = link.send(echo("x"));
    assert_eq!(main.request().await, ["ECHO", "x"]);
    main.say("*1\r\n$7\r\nmessage\r\n").await;
    assert_eq!(
        within(answer).await,
        Ok(Value::Array(vec![Value::BulkString(b"message".to_vec())]))
    );
    // A new connection for requests may reach another server, so the messages come on a new
    // connection too.
    drop(main);
    let mut main = peer.accept().await;
    main.greet_in_resp2().await;
    assert_eq!(side.next().await, [""; 0]);
    let mut sounds = [received.next().await, received.next().await];
    sounds.sort_by_key(|sound| *sound == Sound::Disconnected);
    assert_eq!(sounds, [Sound::Reconnected, Sound::Disconnected]);
    let mut side = peer.accept().await;
    side.prepare().await;
    assert_eq!(side.request().await, ["SUBSCRIBE", "mine"]);
    side.say("*3\r\n$9\r\nsubscribe\r\n$4\r\nmine\r\n:1\r\n").await;
    assert_eq!(received.next().await, Sound::Subscribed("mine".to_owned()));
    link.unsubscribe(b"mine", false);
    assert_eq!(side.request().await, ["UNSUBSCRIBE", "mine"]);
    side.say("*3\r\n$11\r\nunsubscribe\r\n$4\r\nmine\r\n:0\r\n").await;
    drop(link);
    assert_eq!(side.next().await, [""; 0]);
    assert_eq!(main.next().await, [""; 0]);
}
