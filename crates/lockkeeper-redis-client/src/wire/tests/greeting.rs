//! The handshake.

use std::sync::Arc;

use redis::Value;

use super::super::handshake::{Role, Server};
use super::super::{Link, Script, Settings, WireError};
use crate::Secret;
use crate::peer::{Peer, PeerConnection, echo, listener, patient, within};

static ONE: Script = Script::new("return 1");
static TWO: Script = Script::new("return 2");

fn with_all() -> Settings {
    Settings {
        user: Some("ann".to_owned()),
        password: Some(Secret::new("hunter2")),
        db: 3,
        ..patient()
    }
}

fn open(peer: &Peer, settings: Settings) -> Link {
    Link::open(peer.endpoint.clone(), Arc::new(settings), listener().0)
}

/// The peer reads so many requests, and answers nothing.
async fn listen(remote: &mut PeerConnection, count: usize) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..count {
        said.push(remote.request().await.join(" "));
    }
    said
}

#[tokio::test]
async fn the_first_requests_identify_the_client_and_load_no_script() {
    let peer = Peer::new().await;
    let link = open(&peer, with_all());
    let answer = link.send(echo("x"));
    let mut remote = peer.accept().await;
    assert_eq!(remote.request().await, ["HELLO", "3", "AUTH", "ann", "hunter2"]);
    remote.say("%3\r\n+server\r\n+valkey\r\n+version\r\n+8.1.2\r\n+role\r\n+replica\r\n").await;
    let said = listen(&mut remote, 5).await;
    let expected = [
        "PING",
        "SELECT 3",
        "INFO server",
        "CLIENT SETNAME lockkeeper",
        "CLIENT SETINFO LIB-NAME lockkeeper",
    ];
    assert_eq!(said, expected);
    remote.say("+PONG\r\n+OK\r\n=34\r\ntxt:redis_version:7.2.4\r\nrun_id:ab\r\n-NOPERM no\r\n-ERR no\r\n").await;
    let server = within(link.ready()).await.unwrap();
    let expected = Server {
        role: Role::Replica,
        is_sentinel: false,
        run_id: Some("ab".to_owned()),
        history: None,
        forgets: None,
        resp3: true,
    };
    assert_eq!(server, expected);
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_server_without_hello_is_spoken_to_in_resp2() {
    for refusal in [
        "-ERR unknown command `HELLO`, with args\r\n",
        "-NOPROTO unsupported\r\n",
        "-NOPERM no\r\n",
    ] {
        let peer = Peer::new().await;
        let link = open(&peer, with_all());
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(refusal).await;
        assert_eq!(remote.request().await, ["AUTH", "ann", "hunter2"]);
        remote.say("+OK\r\n").await;
        listen(&mut remote, 6).await;
        let info = "redis_version:5.0.14\r\nredis_mode:cluster\r\n";
        remote
            .say(&format!(
                "+PONG\r\n+OK\r\n${}\r\n{info}\r\n$12\r\nrole:slave\r\n\r\n+OK\r\n+OK\r\n",
                info.len()
            ))
            .await;
        let server = within(link.ready()).await.unwrap();
        assert_eq!((server.role, server.is_sentinel), (Role::Replica, false));
        assert!(!server.resp3);
    }
}

#[tokio::test]
async fn resp3_is_not_asked_for_where_it_is_not_wanted() {
    let peer = Peer::new().await;
    let link = open(&peer, Settings { resp2: true, ..patient() });
    let mut remote = peer.accept().await;
    remote.prepare().await;
    assert!(!within(link.ready()).await.unwrap().resp3);
}

#[tokio::test]
async fn a_refusal_is_reported_in_the_servers_words_and_tried_again() {
    let refusals = [
        ("-WRONGPASS invalid username-password pair\r\n", "WRONGPASS"),
        ("-NOAUTH HELLO must be called with the client already authenticated\r\n", "NOAUTH"),
        ("-ERR max number of clients reached\r\n", "ERR"),
    ];
    for (refusal, expected) in refusals {
        let peer = Peer::new().await;
        let link = open(&peer, with_all());
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(refusal).await;
        let error = within(link.ready()).await.unwrap_err();
        assert!(error.is(expected), "{error:?}");
        assert!(!format!("{error} {error:?} {link:?}").contains("hunter2"));
        peer.accept().await;
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_greeting_is_reported_without_the_password() {
    let long = "long-pass".repeat(40);
    // The last error is that of a server that cuts the arguments off.
    let sayings = [
        ("hunter2", "-ERR Protocol error in 'HELLO 3 AUTH ann hunter2'\r\n".to_owned()),
        ("hunter2", "-hunter2 is no command\r\n".to_owned()),
        ("hunter2", "-WRONGPASS ann:hunter2\r\n".to_owned()),
        ("WRONGPASS", "-WRONGPASS ann:WRONGPASS\r\n".to_owned()),
        (
            "hunter2",
            "-DENIED unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `hunter2`, \r\n".to_owned(),
        ),
        (&*long, format!("-DENIED unknown command 'HELLO', with args beginning with: '3' 'AUTH' '{}\r\n", &long[..99])),
    ];
    for (password, saying) in &sayings {
        let peer = Peer::new().await;
        let link = open(&peer, Settings { password: Some(Secret::new(*password)), ..with_all() });
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(saying).await;
        let text = within(link.ready()).await.unwrap_err();
        let text = format!("{text} {text:?}");
        assert!(!text.contains(&password[..7]), "{text}");
        let known = ["repeats the password", "unknown command", "is no command"];
        assert!(known.iter().any(|words| text.contains(words)), "{text}");
    }
}

/// The words of any server may have the wrong password.
#[tokio::test]
async fn a_wrong_password_that_is_a_common_word_is_reported_as_such() {
    let said = [
        ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "WRONGPASS"),
        (
            "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?\r\n",
            "ERR",
        ),
    ];
    for (said, code) in said {
        let peer = Peer::new().await;
        let link = open(&peer, Settings { password: Some(Secret::new("password")), ..with_all() });
        let mut remote = peer.accept().await;
        remote.request().await;
        remote.say(said).await;
        let error = within(link.ready()).await.unwrap_err();
        assert!(error.is(code), "{error:?}");
        assert_eq!(
            error.to_string().contains("AUTH <password> called"),
            code == "ERR",
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn what_knows_no_auth_is_reported_without_the_password() {
    let peer = Peer::new().await;
    let link = open(&peer, Settings { resp2: true, ..with_all() });
    let mut remote = peer.accept().await;
    assert_eq!(remote.request().await, ["AUTH", "ann", "hunter2"]);
    remote
        .say("-ERR unknown command `AUTH`, with args beginning with: `ann`, `hunter2`, \r\n")
        .await;
    let text = within(link.ready()).await.unwrap_err();
    assert_eq!(text.to_string(), "ERR unknown command `AUTH`");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_a_refusal() {
    let peer = Peer::new().await;
    let link = open(&peer, Settings { db: 99, ..patient() });
    let mut remote = peer.accept().await;
    remote.request().await;
    remote.say(crate::peer::HELLO).await;
    listen(&mut remote, 5).await;
    remote.say("+PONG\r\n-ERR DB index is out of range\r\n+x\r\n+OK\r\n+OK\r\n").await;
    let error = within(link.ready()).await.unwrap_err();
    assert_eq!(error.to_string(), "ERR DB index is out of range");
}

#[tokio::test]
async fn a_script_that_the_server_does_not_have_is_loaded_before_it_is_called_again_and_no_other() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let call = || super::super::Request::eval(&ONE, &[b"key"], &[b"arg"]);
    let (one, two) = (link.send(call()), link.send(call()));
    let expected = ["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", "key", "arg"];
    assert_eq!(remote.request().await, expected);
    assert_eq!(remote.request().await, expected);
    remote.say("-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n").await;
    assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 1"]);
    assert_eq!(remote.request().await, expected);
    assert_eq!(remote.request().await, expected);
    remote.repeat(ONE.digest()).await;
    // The second time the caller gets the error.
    remote.say(":1\r\n-NOSCRIPT No matching script.\r\n").await;
    assert_eq!(within(one).await, Ok(Value::Int(1)));
    assert!(within(two).await.unwrap_err().is("NOSCRIPT"));
    assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 1"]);
    let other = link.send(super::super::Request::eval(&TWO, &[], &[]));
    remote.request().await;
    remote.repeat(ONE.digest()).await;
    remote.say("-NOSCRIPT No matching script.\r\n").await;
    assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 2"]);
    drop(other);
}

#[tokio::test]
async fn who_cannot_be_reached_is_named() {
    let peer = Peer::new().await;
    let endpoint = peer.endpoint.clone();
    drop(peer);
    let link = Link::open(endpoint.clone(), Arc::new(patient()), listener().0);
    let error = within(link.ready()).await.unwrap_err();
    assert!(
        matches!(&error, WireError::NotSent(why) if why.contains(&endpoint.to_string())),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_user_without_a_password_is_that_user_and_nobody_else() {
    for resp2 in [false, true] {
        let peer = Peer::new().await;
        let link = open(&peer, Settings { user: Some("app".to_owned()), resp2, ..patient() });
        let mut remote = peer.accept().await;
        let expected =
            if resp2 { vec!["AUTH", "app", ""] } else { vec!["HELLO", "3", "AUTH", "app", ""] };
        assert_eq!(remote.request().await, expected);
        remote.say("-WRONGPASS invalid username-password pair or user is disabled.\r\n").await;
        assert!(within(link.ready()).await.unwrap_err().is("WRONGPASS"));
    }
}

/// A user's right to ask may be gone since the store was opened.
#[tokio::test]
async fn a_server_that_hides_its_eviction_policy_is_not_used() {
    let peer = Peer::new().await;
    let link = open(&peer, Settings { never_forgets: true, ..patient() });
    let mut remote = peer.accept().await;
    remote.request().await;
    remote.say(crate::peer::HELLO).await;
    let said = listen(&mut remote, 5).await;
    assert_eq!(said[..3], ["PING", "INFO server", "INFO memory"]);
    remote.say("+PONG\r\n+\r\n-NOPERM no permissions to run 'info'\r\n+OK\r\n+OK\r\n").await;
    assert!(within(link.ready()).await.unwrap_err().is("NOPERM"));
    let _remote = peer.connection().await;
}

/// A busy server does not say whether it forgets keys, or whether it is a replica.
#[tokio::test]
async fn a_server_busy_with_a_script_is_examined_before_a_connection() {
    let peer = Peer::new().await;
    let link = open(&peer, patient());
    let mut remote = peer.accept().await;
    remote.request().await;
    remote.say(crate::peer::HELLO).await;
    let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
    listen(&mut remote, 4).await;
    remote.say(&busy.repeat(4)).await;
    assert!(within(link.ready()).await.unwrap_err().is("BUSY"));
    let _remote = peer.connection().await;
}
