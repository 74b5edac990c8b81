//! Lost connections: requests that were written are broken, and the others wait for the next
//! connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use super::super::{Link, Settings, WireError};
use crate::peer::{HELLO, Peer, echo, impatient, listener, patient, tolerant, within};

fn is_broken(answer: &Result<Value, WireError>) -> bool {
    matches!(answer, Err(WireError::Broken(_)))
}

#[tokio::test]
async fn written_requests_fail_and_unwritten_ones_move_to_the_next_connection_in_order() {
    let peer = Peer::new().await;
    let (link, remote, _received) = peer.link(patient()).await;
    // The peer reads nothing: at some point the system takes no more.
    let big = |number: usize| echo(&format!("{number:04}{}", "x".repeat(200_000)));
    let answers: Vec<_> = (0..200).map(|number| link.send(big(number))).collect();
    let mut writes = 0;
    while link.writes() != std::mem::replace(&mut writes, link.writes()) || writes < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(remote);
    let mut remote = peer.connection().await;
    let first: usize = remote.request().await[1][..4].parse().unwrap();
    assert!(first > 1 && first < 200, "{first}");
    remote.say(&format!(":{first}\r\n")).await;
    for number in first + 1..200 {
        assert_eq!(remote.request().await[1][..4].parse(), Ok(number));
        remote.say(&format!(":{number}\r\n")).await;
    }
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = within(answer).await;
        match number < first {
            true => assert!(is_broken(&answer), "{number}: {answer:?}"),
            false => assert_eq!(answer, Ok(Value::Int(i64::try_from(number).unwrap()))),
        }
    }
}

#[tokio::test]
async fn requests_without_a_connection_wait_and_precede_later_ones() {
    let peer = Peer::new().await;
    let (listener, _received) = listener();
    let link = Link::open(peer.endpoint.clone(), Arc::new(patient()), listener);
    let early = link.send(echo("early"));
    let second = link.send(echo("second").posted());
    assert!(!link.is_connected());
    let mut remote = peer.connection().await;
    within(link.ready()).await.unwrap();
    let late = link.send(echo("late"));
    for text in ["early", "second", "late"] {
        assert_eq!(remote.request().await[1], text);
    }
    remote.say(":1\r\n:2\r\n:3\r\n").await;
    let answers = (within(early).await, within(second).await, within(late).await);
    assert_eq!(answers, (Ok(Value::Int(1)), Ok(Value::Int(2)), Ok(Value::Int(3))));
}

#[tokio::test]
async fn without_a_connection_a_request_times_out_and_was_never_written() {
    let peer = Peer::new().await;
    let (listener, _received) = listener();
    let link = Link::open(peer.endpoint.clone(), Arc::new(impatient()), listener);
    let mut silent = peer.accept().await;
    let began = Instant::now();
    let answer = within(link.send(echo("lost"))).await;
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(
        matches!(&answer, Err(WireError::NotSent(why)) if why.contains(&peer.endpoint.to_string())),
        "{answer:?}"
    );
    // The connection comes up after all. The request does not come with it.
    silent.greet().await;
    within(link.ready()).await.unwrap();
    drop(link.send(echo("next")));
    assert_eq!(silent.request().await[1], "next");
}

/// Otherwise a caller would learn the refusal only after the timeout, and a holder may not have so
/// long.
#[tokio::test]
async fn a_refused_login_is_reported_at_once_and_tried_again() {
    let peer = Peer::new().await;
    let settings = Settings { timeout: 3 * crate::peer::TIME_LIMIT, ..patient() };
    let link = Link::open(peer.endpoint.clone(), Arc::new(settings), listener().0);
    for refusal in ["WRONGPASS invalid username-password pair or user is disabled.", "NOAUTH no"] {
        let answer = link.send(echo("x"));
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(&format!("-{refusal}\r\n")).await;
        let Err(WireError::NotSent(why)) = within(answer).await else { panic!("it was sent") };
        assert!(why.contains(refusal.split(' ').next().unwrap()), "{why}");
    }
    let answer = link.send(echo("y"));
    let mut remote = peer.connection().await;
    assert_eq!(remote.request().await, ["ECHO", "y"]);
    remote.say("+y\r\n").await;
    within(answer).await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_answering_is_dropped_after_the_timeout() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(impatient()).await;
    let began = Instant::now();
    let first = link.send(echo("unanswered"));
    let second = link.send(echo("neither"));
    assert!(is_broken(&within(first).await));
    assert!(is_broken(&within(second).await));
    assert!(began.elapsed() >= Duration::from_millis(200));
    // The timeout of the request counts, and not that of a question into the silence, which takes
    // longer.
    let mut seen = Vec::new();
    while let Some(text) = remote.next().await.get(1) {
        seen.push(text.clone());
    }
    assert_eq!(seen, ["unanswered", "neither"]);
    peer.connection().await;
}

#[tokio::test]
async fn a_request_written_without_the_driver_still_times_out() {
    let peer = Peer::new().await;
    let timeout = Duration::from_secs(1);
    let (link, _remote, _received) = peer.link(Settings { timeout, ..patient() }).await;
    let began = Instant::now();
    assert!(is_broken(&within(link.send(echo("alone"))).await));
    // The driver alone would have asked into the silence after three times as long.
    assert!(began.elapsed() < timeout * 5 / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_time_out_counts_for_the_oldest_unanswered_request_only() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(tolerant()).await;
    // For much longer than the timeout a request is always on its way, but no request for so long.
    for number in 0..30 {
        let answer = link.send(echo("x"));
        tokio::time::sleep(Duration::from_millis(150)).await;
        let mut request = remote.request().await;
        while request[0] == "PING" {
            remote.repeat(&request[1]).await;
            request = remote.request().await;
        }
        remote.say(&format!(":{number}\r\n")).await;
        assert_eq!(within(answer).await, Ok(Value::Int(number)));
    }
}

#[tokio::test]
async fn a_silent_server_is_pinged_and_dropped_without_an_answer() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(tolerant()).await;
    remote.pong().await;
    assert_eq!(remote.request().await[0], "PING");
    assert_eq!(remote.next().await, [""; 0], "no answer, and it is closed");
    let _remote = peer.connection().await;
    within(link.ready()).await.unwrap();
}

#[tokio::test]
async fn a_reply_that_is_cut_off_at_any_byte_is_no_reply() {
    let reply = "*2\r\n$5\r\ngrant\r\n:1234567\r\n";
    for cut in 0..reply.len() {
        let peer = Peer::new().await;
        let (link, mut remote, _received) = peer.link(patient()).await;
        let whole = link.send(echo("whole"));
        let half = link.send(echo("half"));
        remote.request().await;
        remote.request().await;
        remote.say(&format!("{reply}{}", &reply[..cut])).await;
        drop(remote);
        let grant = Value::Array(vec![Value::BulkString(b"grant".to_vec()), Value::Int(1_234_567)]);
        assert_eq!(within(whole).await, Ok(grant), "cut at {cut}");
        assert!(is_broken(&within(half).await), "cut at {cut}");
    }
}

#[tokio::test]
async fn nonsense_breaks_what_was_asked_and_a_new_connection_is_made() {
    let deep = "*1\r\n".repeat(100_000);
    let unasked = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    for nonsense in
        ["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0", "$x\r\n", ":\r\n", &deep, unasked]
    {
        let peer = Peer::new().await;
        let (link, mut remote, _received) = peer.link(patient()).await;
        let answer = link.send(echo("x"));
        remote.request().await;
        remote.say(nonsense).await;
        assert!(is_broken(&within(answer).await), "{nonsense:.20}");
        let mut remote = peer.connection().await;
        let answer = link.send(echo("y"));
        remote.request().await;
        remote.say("+fine\r\n").await;
        assert!(within(answer).await.is_ok());
    }
}

#[tokio::test]
async fn a_reply_to_nothing_is_nonsense() {
    let peer = Peer::new().await;
    let (_link, mut remote, _received) = peer.link(patient()).await;
    remote.say(":1\r\n").await;
    assert_eq!(remote.next().await, [""; 0]);
    peer.connection().await;
}

#[tokio::test]
async fn a_reset_breaks_what_was_asked_and_makes_a_new_connection() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let answer = link.send(echo("x"));
    remote.request().await;
    link.reset("it is a replica now");
    let answer = within(answer).await;
    assert!(
        matches!(&answer, Err(WireError::Broken(why)) if why.contains("it is a replica now")),
        "{answer:?}"
    );
    let mut remote = peer.connection().await;
    drop(link.send(echo("y")));
    assert_eq!(remote.request().await[1], "y");
}

#[tokio::test]
async fn a_connection_that_is_lost_in_the_first_words_is_made_again() {
    for said in ["", "%4\r\n", HELLO, "-LOADING Redis is loading the dataset in memory\r\n"] {
        let peer = Peer::new().await;
        let (listener, _received) = listener();
        let link = Link::open(peer.endpoint.clone(), Arc::new(patient()), listener);
        let answer = link.send(echo("x"));
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(said).await;
        drop(remote);
        assert!(within(link.ready()).await.is_err(), "{said:?}");
        let mut remote = peer.connection().await;
        assert_eq!(remote.request().await[1], "x");
        remote.say(":1\r\n").await;
        assert_eq!(within(answer).await, Ok(Value::Int(1)));
    }
}

#[tokio::test]
async fn unwritten_requests_of_a_dedicated_connection_go_to_no_other() {
    let peer = Peer::new().await;
    let (link, _remote, _received) = peer.link(patient()).await;
    let (alone, remote) = tokio::join!(link.alone(), peer.connection());
    let alone = alone.unwrap();
    // The peer reads nothing: at some point the system takes no more.
    let answers: Vec<_> = (0..200).map(|_| alone.send(echo(&"x".repeat(200_000)))).collect();
    let mut writes = 0;
    while alone.writes() != std::mem::replace(&mut writes, alone.writes()) || writes < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(remote);
    let mut ends = Vec::new();
    for answer in answers {
        ends.push(match within(answer).await {
            Err(WireError::Broken(_)) => "broken",
            Err(WireError::NotSent(_)) => "not sent",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!((ends.first(), ends.last()), (Some(&"broken"), Some(&"not sent")));
    assert!(ends.is_sorted(), "{ends:?}");
    assert!(!alone.is_connected() && link.is_connected());
    let answer = within(alone.send(echo("later"))).await;
    assert!(
        matches!(&answer, Err(WireError::NotSent(why)) if why.contains(&peer.endpoint.to_string())),
        "{answer:?}"
    );
    assert!(tokio::time::timeout(Duration::from_millis(200), peer.accept()).await.is_err());
}

#[tokio::test]
async fn a_dedicated_connection_that_fails_is_not_tried_again() {
    let peer = Peer::new().await;
    let (link, _remote, _received) = peer.link(patient()).await;
    let refused = async {
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say("-WRONGPASS invalid username-password pair\r\n").await;
        assert_eq!(remote.next().await, [""; 0]);
    };
    let (alone, ()) = tokio::join!(link.alone(), refused);
    assert!(alone.unwrap_err().is("WRONGPASS"));
    assert!(tokio::time::timeout(Duration::from_millis(200), peer.accept()).await.is_err());
}

#[tokio::test]
async fn a_connection_of_its_own_is_one_where_messages_have_another() {
    let peer = Peer::new().await;
    let link = Link::open(
        peer.endpoint.clone(),
        Arc::new(Settings { resp2: true, ..patient() }),
        listener().0,
    );
    let mut main = peer.accept().await;
    main.prepare().await;
    within(link.ready()).await.unwrap();
    let _side = peer.accept().await;
    let greeted = async {
        let mut remote = peer.accept().await;
        remote.prepare().await;
        remote
    };
    let (alone, mut remote) = tokio::join!(link.alone(), greeted);
    let answer = alone.unwrap().send(echo("x"));
    assert_eq!(remote.request().await[1], "x");
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
    assert!(tokio::time::timeout(Duration::from_millis(200), peer.accept()).await.is_err());
}

/// A question of the driver would become a part of the transaction that the owner of the link has
/// begun.
#[tokio::test]
async fn a_connection_of_its_own_is_asked_nothing_while_it_is_silent() {
    let peer = Peer::new().await;
    let (link, mut main, _received) = peer.link(tolerant()).await;
    let (alone, mut remote) = tokio::join!(link.alone(), peer.connection());
    let alone = alone.unwrap();
    // The driver asks the other server, which is silent for no longer, twice.
    main.pong().await;
    assert_eq!(main.request().await[0], "PING");
    let _answer = alone.send(echo("mine"));
    assert_eq!(remote.request().await, ["ECHO", "mine"]);
}
