//! Redirections, with peers that play the nodes.

use std::time::Duration;

use lockkeeper_core::Effect;
use redis::Value;

use super::super::{Route, Topology};
use crate::ErrorKind;
use crate::fault;
use crate::peer::{Peer, PeerConnection, Received, Sound, echo, listener, patient, within};
use crate::wire::{Request, Script, Settings, WireError};

const HELLO: &str = "%3\r\n+version\r\n+7.0.15\r\n+mode\r\n+cluster\r\n+role\r\n+master\r\n";

async fn greet(peer: &Peer) -> PeerConnection {
    let mut remote = peer.accept().await;
    assert_eq!(remote.request().await[0], "HELLO");
    remote.say(HELLO).await;
    remote.prepare().await;
    remote
}

/// The map of two nodes: the first has the slots to 99, the second the rest.
fn map(one: &Peer, two: &Peer) -> String {
    let node =
        |peer: &Peer| format!("*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$1\r\nx\r\n", peer.endpoint.port);
    format!("*2\r\n*3\r\n:0\r\n:99\r\n{}*3\r\n:100\r\n:16383\r\n{}", node(one), node(two))
}

/// The next request that is not about the map. No node gives a new map.
async fn asked(remote: &mut PeerConnection) -> Vec<String> {
    loop {
        let request = remote.next().await;
        if request.first().is_none_or(|word| word != "CLUSTER") {
            return request;
        }
        remote.say("-ERR not now\r\n").await;
    }
}

struct Pair {
    route: Route,
    one: (Peer, PeerConnection),
    two: (Peer, PeerConnection),
    received: Received,
}

async fn cluster(settings: Settings) -> Pair {
    let pair = cluster_that_says(":0", settings).await;
    assert!(pair.route.shards());
    pair
}

/// The answer to the question whether the node has shards.
async fn cluster_that_says(answer: &str, settings: Settings) -> Pair {
    let (one, two) = (Peer::new().await, Peer::new().await);
    let (listener, received) = listener();
    let topology = Topology::Cluster(vec![one.endpoint.clone()]);
    let opening = tokio::spawn(Route::open(topology, settings, listener));
    let mut first = greet(&one).await;
    assert_eq!(first.request().await, ["CLUSTER", "SLOTS"]);
    first.say(&map(&one, &two)).await;
    let second = greet(&two).await;
    assert_eq!(first.request().await[0], "SPUBLISH");
    first.say(&format!("{answer}\r\n")).await;
    let route = within(opening).await.unwrap().unwrap();
    Pair { route, one: (one, first), two: (two, second), received }
}

#[tokio::test]
async fn a_request_that_is_moved_follows_and_so_do_the_next_ones() {
    let mut pair = cluster(patient()).await;
    let answer = pair.route.send(5, echo("x"));
    let answer = tokio::spawn(answer);
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(&format!("-MOVED 5 127.0.0.1:{}\r\n", pair.two.0.endpoint.port)).await;
    assert_eq!(asked(&mut pair.two.1).await, ["ECHO", "x"]);
    pair.two.1.say(":1\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
    assert_eq!(pair.route.link(5).endpoint(), &pair.two.0.endpoint);
}

#[tokio::test]
async fn a_request_for_a_moving_slot_is_sent_to_the_new_node_once() {
    let mut pair = cluster(patient()).await;
    let answer = tokio::spawn(pair.route.send(5, echo("x")));
    pair.one.1.request().await;
    pair.one.1.say(&format!("-ASK 5 :{}\r\n", pair.two.0.endpoint.port)).await;
    assert_eq!(pair.two.1.request().await, ["ASKING"]);
    assert_eq!(pair.two.1.request().await, ["ECHO", "x"]);
    pair.two.1.say(&format!("+OK\r\n{IN_TWO_PLACES}")).await;
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(":1\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
    assert_eq!(pair.route.link(5).endpoint(), &pair.one.0.endpoint);
}

/// Answers the next question for the map, which may come to either node.
async fn answers_with_the_map(pair: &mut Pair, other: &mut PeerConnection) {
    let map = map(&pair.one.0, &pair.two.0);
    let connections = [&mut pair.one.1, &mut pair.two.1, other];
    let [one, two, three] = connections;
    let (request, remote) = tokio::select! {
        request = one.request() => (request, one),
        request = two.request() => (request, two),
        request = three.request() => (request, three),
    };
    assert_eq!(request, ["CLUSTER", "SLOTS"]);
    remote.say(&map).await;
}

#[tokio::test]
async fn the_target_node_of_a_slot_move_keeps_its_connection_without_slots() {
    let mut pair = cluster(patient()).await;
    let importing = Peer::new().await;
    let Route::Cluster(nodes) = pair.route.clone() else { panic!("it is one") };
    let mut remote: Option<PeerConnection> = None;
    for _ in 0..2 {
        let answer = tokio::spawn(pair.route.send(5, echo("x")));
        assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
        pair.one.1.say(&format!("-ASK 5 127.0.0.1:{}\r\n", importing.endpoint.port)).await;
        let mut there = match remote.take() {
            Some(remote) => remote,
            None => greet(&importing).await,
        };
        assert_eq!(there.request().await, ["ASKING"]);
        assert_eq!(there.request().await, ["ECHO", "x"]);
        there.say("+OK\r\n:1\r\n").await;
        assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
        // The client asks again only when it has taken over the answer before.
        for _ in 0..2 {
            nodes.refresh();
            answers_with_the_map(&mut pair, &mut there).await;
        }
        remote = Some(there);
    }
}

/// A keeper with a thread of its own may share the store, and end before the others.
#[tokio::test]
async fn a_connection_outlives_the_runtime_of_the_request_that_led_to_it() {
    let mut pair = cluster(patient()).await;
    let (third, route) = (Peer::new().await, pair.route.clone());
    let short_lived = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || runtime.block_on(route.send(5, echo("x")))).join().unwrap()
    });
    let ask = format!("-ASK 5 127.0.0.1:{}\r\n", third.endpoint.port);
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(&ask).await;
    let mut there = greet(&third).await;
    assert_eq!([there.request().await, there.request().await], [vec!["ASKING"], vec!["ECHO", "x"]]);
    there.say("+OK\r\n:1\r\n").await;
    assert_eq!(within(short_lived).await.unwrap(), Ok(Value::Int(1)));
    let answer = tokio::spawn(pair.route.send(5, echo("y")));
    assert_eq!(asked(&mut pair.one.1).await, ["ECHO", "y"]);
    pair.one.1.say(&ask).await;
    assert_eq!(
        [asked(&mut there).await, asked(&mut there).await],
        [vec!["ASKING"], vec!["ECHO", "y"]]
    );
    there.say("+OK\r\n:2\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(2)));
}

const IN_TWO_PLACES: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";

#[tokio::test]
async fn a_request_whose_keys_are_in_two_places_is_repeated_until_they_are_in_one() {
    let mut pair = cluster(patient()).await;
    let answer = tokio::spawn(pair.route.send(5, echo("x")));
    for _ in 0..3 {
        assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
        pair.one.1.say(IN_TWO_PLACES).await;
    }
    // All keys of the request have left the first node, and some have not reached the second one.
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(&format!("-ASK 5 :{}\r\n", pair.two.0.endpoint.port)).await;
    assert_eq!(
        [pair.two.1.request().await, pair.two.1.request().await],
        [vec!["ASKING"], vec!["ECHO", "x"]]
    );
    pair.two.1.say(&format!("+OK\r\n{IN_TWO_PLACES}")).await;
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(&format!("-MOVED 5 127.0.0.1:{}\r\n", pair.two.0.endpoint.port)).await;
    assert_eq!(asked(&mut pair.two.1).await, ["ECHO", "x"]);
    pair.two.1.say(":1\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
}

/// Each copy was refused, so none has an effect.
#[tokio::test]
async fn a_request_whose_keys_stay_in_two_places_is_refused_at_its_deadline() {
    let timeout = Duration::from_millis(300);
    let Pair { route, one: (_peer, mut remote), .. } =
        cluster(Settings { timeout, ..patient() }).await;
    let (began, mut copies) = (std::time::Instant::now(), 0);
    let answer = route.send(5, echo("x"));
    tokio::pin!(answer);
    let error = loop {
        tokio::select! {
            answer = &mut answer => break answer.unwrap_err(),
            request = asked(&mut remote) => {
                assert_eq!(request, ["ECHO", "x"]);
                copies += 1;
                remote.say(IN_TWO_PLACES).await;
            }
        }
    };
    assert!(began.elapsed() >= timeout && copies > 2, "{copies} copies in {:?}", began.elapsed());
    let error = fault::of(error);
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
}

#[tokio::test]
async fn a_possible_effect_is_not_repeated_and_a_refusal_is_reported() {
    let mut pair = cluster(patient()).await;
    let (refused, lost) = (pair.route.send(500, echo("x")), pair.route.send(500, echo("y")));
    pair.two.1.request().await;
    pair.two.1.request().await;
    pair.two.1.say("-OOM command not allowed\r\n").await;
    drop(pair.two.1);
    assert!(within(refused).await.unwrap_err().is("OOM"));
    assert!(matches!(within(lost).await, Err(WireError::Broken(_))));
}

#[tokio::test]
async fn servers_that_send_us_to_each_other_are_not_followed_for_ever() {
    let settings = Settings { timeout: Duration::from_millis(300), ..patient() };
    let Pair { route, one, two, .. } = cluster(settings).await;
    let (one_port, two_port) = (one.0.endpoint.port, two.0.endpoint.port);
    for ((peer, mut remote), other) in [(one, two_port), (two, one_port)] {
        tokio::spawn(async move {
            let _peer = peer;
            loop {
                let request = remote.next().await;
                match request.first().map(String::as_str) {
                    None => return,
                    Some("ECHO") => remote.say(&format!("-MOVED 5 127.0.0.1:{other}\r\n")).await,
                    Some(_) => remote.say("-ERR not now\r\n").await,
                }
            }
        });
    }
    assert!(within(route.send(5, echo("x"))).await.unwrap_err().is("MOVED"));
}

#[tokio::test]
async fn a_subscription_goes_where_its_slot_goes() {
    let mut pair = cluster(patient()).await;
    let confirmed = |kind: &str| format!(">3\r\n${}\r\n{kind}\r\n$1\r\nc\r\n:1\r\n", kind.len());
    pair.route.subscribe(5, b"c".to_vec());
    assert_eq!(pair.one.1.request().await, ["SSUBSCRIBE", "c"]);
    pair.one.1.say(&confirmed("ssubscribe")).await;
    assert_eq!(pair.received.next().await, Sound::Subscribed("c".to_owned()));
    let answer = tokio::spawn(pair.route.send(5, echo("x")));
    assert_eq!(pair.one.1.request().await, ["ECHO", "x"]);
    pair.one.1.say(&format!("-MOVED 5 127.0.0.1:{}\r\n", pair.two.0.endpoint.port)).await;
    assert_eq!(asked(&mut pair.two.1).await, ["SSUBSCRIBE", "c"]);
    pair.two.1.say(&confirmed("ssubscribe")).await;
    assert_eq!(asked(&mut pair.two.1).await, ["ECHO", "x"]);
    pair.two.1.say(":1\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
    assert_eq!(
        pair.received.next().await,
        Sound::Reconnected,
        "it may not have all that the other had"
    );
    assert_eq!(pair.received.next().await, Sound::Subscribed("c".to_owned()));
}

#[tokio::test]
async fn a_cluster_without_shards_publishes_through_any_node() {
    let mut pair =
        cluster_that_says("-ERR unknown command `SPUBLISH`, with args beginning with: ", patient())
            .await;
    assert!(!pair.route.shards());
    pair.route.subscribe(5, b"c".to_vec());
    assert_eq!(asked(&mut pair.one.1).await, ["SUBSCRIBE", "c"]);
    for refusal in ["-MOVED 5 127.0.0.1:1", "-NOPERM this user has no permissions"] {
        assert!(cluster_that_says(refusal, patient()).await.route.shards());
    }
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_called_again() {
    static ONE: Script = Script::new("return 1");
    let peer = Peer::new().await;
    let opening = tokio::spawn(Route::open(
        Topology::Standalone(peer.endpoint.clone()),
        patient(),
        listener().0,
    ));
    let mut remote = peer.connection().await;
    let route = within(opening).await.unwrap().unwrap();
    let answer = tokio::spawn(route.send(0, Request::eval(&ONE, &[], &[])));
    assert_eq!(remote.request().await[0], "EVALSHA");
    remote.say("-NOSCRIPT No matching script.\r\n").await;
    assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 1"]);
    assert_eq!(remote.request().await[0], "EVALSHA");
    remote.repeat(ONE.digest()).await;
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
}

/// A release, and a claim that comes after it. The task of the claim is polled first, and the other
/// one only when both are answered.
#[tokio::test]
async fn requests_whose_scripts_the_server_has_forgotten_keep_their_order_whichever_task_wakes_first()
 {
    static RELEASE: Script = Script::new("return 1").loaded_with(both);
    static CLAIM: Script = Script::new("return 2").loaded_with(both);
    fn both() -> Vec<&'static Script> {
        vec![&RELEASE, &CLAIM]
    }
    let peer = Peer::new().await;
    let opening = tokio::spawn(Route::open(
        Topology::Standalone(peer.endpoint.clone()),
        patient(),
        listener().0,
    ));
    let mut remote = peer.connection().await;
    let route = within(opening).await.unwrap().unwrap();
    let call = |script| route.send(0, Request::eval(script, &[], &[]));
    let [release, claim, later] = [call(&RELEASE), call(&CLAIM), route.send(0, echo("later"))];
    let calls = [RELEASE.digest(), CLAIM.digest()];
    for digest in calls {
        assert_eq!(remote.request().await[1], digest);
    }
    assert_eq!(remote.request().await, ["ECHO", "later"]);
    let claim = tokio::spawn(claim);
    remote
        .say("-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n+later\r\n")
        .await;
    within(later).await.unwrap();
    for text in ["return 1", "return 2"] {
        assert_eq!(remote.request().await, ["SCRIPT", "LOAD", text]);
    }
    for digest in calls {
        assert_eq!(remote.request().await[1], digest);
    }
    remote.repeat(RELEASE.digest()).await;
    remote.repeat(CLAIM.digest()).await;
    remote.say(":1\r\n:2\r\n").await;
    assert_eq!(within(claim).await.unwrap(), Ok(Value::Int(2)));
    assert_eq!(within(release).await, Ok(Value::Int(1)));
}

/// Each request to the node that imports the slot needs an `ASKING` before it.
#[tokio::test]
async fn a_call_behind_asking_is_not_repeated_without_it() {
    static ONE: Script = Script::new("return 1");
    let mut pair = cluster(patient()).await;
    let answer = tokio::spawn(pair.route.send(5, Request::eval(&ONE, &[], &[])));
    for said in ["+OK\r\n-NOSCRIPT No matching script.\r\n", "+OK\r\n:1\r\n"] {
        assert_eq!(asked(&mut pair.one.1).await[0], "EVALSHA");
        pair.one.1.say(&format!("-ASK 5 127.0.0.1:{}\r\n", pair.two.0.endpoint.port)).await;
        assert_eq!(asked(&mut pair.two.1).await, ["ASKING"]);
        assert_eq!(asked(&mut pair.two.1).await[0], "EVALSHA");
        pair.two.1.say(said).await;
        if said.contains("NOSCRIPT") {
            assert_eq!(asked(&mut pair.two.1).await, ["SCRIPT", "LOAD", "return 1"]);
            pair.two.1.repeat(ONE.digest()).await;
        }
    }
    assert_eq!(within(answer).await.unwrap(), Ok(Value::Int(1)));
}

/// The server lets this client load no script, or another client removes the scripts all the time.
#[tokio::test]
async fn a_script_that_the_server_never_has_is_asked_for_with_pauses_and_not_for_ever() {
    static ONE: Script = Script::new("return 1");
    let peer = Peer::new().await;
    let settings = Settings { timeout: Duration::from_millis(300), ..patient() };
    let opening = tokio::spawn(Route::open(
        Topology::Standalone(peer.endpoint.clone()),
        settings,
        listener().0,
    ));
    let mut remote = peer.connection().await;
    let route = within(opening).await.unwrap().unwrap();
    let mut answer = tokio::spawn(route.send(0, Request::eval(&ONE, &[], &[])));
    let mut calls = 0;
    let error = loop {
        let request = tokio::select! {
            answered = &mut answer => break answered.unwrap().unwrap_err(),
            request = remote.request() => request,
        };
        calls += u32::from(request[0] == "EVALSHA");
        remote
            .say(if request[0] == "EVALSHA" { "-NOSCRIPT none\r\n" } else { "-NOPERM no\r\n" })
            .await;
    };
    assert!(error.is("NOSCRIPT") && (2..60).contains(&calls), "{error} after {calls} calls");
}

/// The answer belonged to another request, and so may the next answers.
#[tokio::test]
async fn a_redirection_for_another_slot_ends_the_connection_with_unknown_outcomes() {
    for said in ["-MOVED 6 127.0.0.1:1\r\n", "-ASK 6 127.0.0.1:1\r\n"] {
        let mut pair = cluster(patient()).await;
        let (x, y) = (
            tokio::spawn(pair.route.send(5, echo("x"))),
            tokio::spawn(pair.route.send(5, echo("y"))),
        );
        pair.one.1.request().await;
        pair.one.1.request().await;
        pair.one.1.say(said).await;
        assert_eq!(asked(&mut pair.one.1).await, [""; 0], "the connection is closed");
        for answer in [x, y] {
            assert!(matches!(within(answer).await.unwrap(), Err(WireError::Broken(_))));
        }
    }
}

/// Two requests were refused by a server that has become a replica. The second refusal is read only
/// when the link has a connection to the new master, as in the close of a session with two claims.
/// It says nothing about that connection.
#[tokio::test]
async fn a_refusal_of_an_earlier_connection_does_not_end_the_present_one() {
    let peer = Peer::new().await;
    let settings = Settings { stays_master: true, ..patient() };
    let (link, mut replica, _received) = peer.link(settings).await;
    let route = Route::Standalone(link);
    let (first, second) = (route.send(0, echo("x")), route.send(0, echo("y")));
    assert_eq!(replica.request().await[1], "x");
    assert_eq!(replica.request().await[1], "y");
    replica.say("-READONLY it is one\r\n-READONLY it is one\r\n").await;
    let first = tokio::spawn(first);
    let mut master = peer.connection().await;
    assert_eq!(master.request().await, ["ECHO", "x"]);
    master.say(":1\r\n").await;
    assert_eq!(within(first).await.unwrap(), Ok(Value::Int(1)));
    // A request of another task is on its way to the new master.
    let other = tokio::spawn(route.send(0, echo("z")));
    assert_eq!(master.request().await, ["ECHO", "z"]);
    let second = tokio::spawn(second);
    assert_eq!(master.next().await, ["ECHO", "y"], "the good connection was dropped");
    master.say(":1\r\n:1\r\n").await;
    assert_eq!(within(other).await.unwrap(), Ok(Value::Int(1)));
    assert_eq!(within(second).await.unwrap(), Ok(Value::Int(1)));
}

/// The same, and the link has not dropped the refused connection yet: a request that comes now
/// waits for the next one.
#[tokio::test]
async fn nothing_is_written_to_a_connection_that_is_about_to_be_dropped() {
    let peer = Peer::new().await;
    let (link, mut replica, _received) = peer.link(patient()).await;
    let number = link.connection().unwrap();
    // No await is between the two, so the task of the link has not run.
    link.reset_connection(number, "it is a replica now");
    let answer = link.send(echo("z"));
    assert_eq!(replica.next().await, [""; 0], "it was written there");
    let mut master = peer.connection().await;
    assert_eq!(master.request().await, ["ECHO", "z"]);
    master.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
}

/// A connection takes longer than the turn of a seed, so the seeds connect side by side.
#[tokio::test]
async fn a_cluster_behind_a_slow_network_opens() {
    let (one, two) = (Peer::new().await, Peer::new().await);
    let (listener, _received) = listener();
    let topology = Topology::Cluster(vec![one.endpoint.clone(), two.endpoint.clone()]);
    let opening = tokio::spawn(Route::open(topology, patient(), listener));
    let late = super::super::cluster::TURN + Duration::from_millis(200);
    let slow = async |peer: &Peer| {
        let mut remote = peer.accept().await;
        assert_eq!(remote.request().await[0], "HELLO");
        tokio::time::sleep(late).await;
        remote.say(HELLO).await;
        remote.prepare().await;
        remote
    };
    let (mut first, mut second) = tokio::join!(slow(&one), slow(&two));
    let plays = async |remote: &mut PeerConnection| loop {
        match remote.next().await.first().map(String::as_str) {
            Some("CLUSTER") => remote.say(&map(&one, &two)).await,
            Some(_) => remote.say(":0\r\n").await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        opened = opening => drop(opened.unwrap().unwrap()),
        () = async { tokio::join!(plays(&mut first), plays(&mut second)); } => {}
    }
}
