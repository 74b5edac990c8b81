//! The ends of a link, of its runtime, and of its process.

use std::sync::Arc;

use redis::Value;

use super::super::handshake::Role;
use super::super::{Link, Settings, WireError};
use crate::peer::{Peer, Sound, echo, impatient, listener, patient, within};

#[tokio::test]
async fn requests_before_the_last_handles_drop_are_written_and_answered() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let clone = link.clone();
    drop(link);
    let posted = clone.send(echo("posted").posted());
    drop(clone.send(echo("forgotten").posted()));
    drop(clone);
    assert_eq!(remote.request().await[1], "posted");
    assert_eq!(remote.request().await[1], "forgotten");
    remote.say(":1\r\n").await;
    assert_eq!(within(posted).await, Ok(Value::Int(1)));
    remote.say(":2\r\n").await;
    assert_eq!(remote.next().await, [""; 0], "then it is closed");
}

#[tokio::test]
async fn a_link_that_nobody_has_any_more_does_not_wait_for_ever() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(impatient()).await;
    let answer = link.send(echo("unanswered"));
    drop(link);
    assert!(matches!(within(answer).await, Err(WireError::Broken(_))));
    remote.request().await;
    assert_eq!(remote.next().await, [""; 0]);
    // The link does not wait for a server that cannot be reached either.
    let (listener, _received) = listener();
    let link = Link::open(peer.endpoint.clone(), Arc::new(impatient()), listener);
    let _silent = peer.accept().await;
    let answer = link.send(echo("unsent"));
    drop(link);
    assert!(matches!(within(answer).await, Err(WireError::NotSent(_))));
}

#[test]
fn what_was_posted_before_the_runtime_ends_is_still_written() {
    let other = tokio::runtime::Runtime::new().unwrap();
    let peer = other.block_on(Peer::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (listener, _received) = listener();
    let link = runtime
        .block_on(async { Link::open(peer.endpoint.clone(), Arc::new(patient()), listener) });
    let remote = other.spawn(async move { peer.connection().await });
    runtime.block_on(async { within(link.ready()).await.unwrap() });
    let mut remote = other.block_on(remote).unwrap();
    let answer = link.send(echo("last").posted());
    drop(runtime);
    other.block_on(async {
        assert_eq!(remote.request().await[1], "last");
        assert!(matches!(within(answer).await, Err(WireError::Broken(_))));
        assert!(matches!(within(link.send(echo("later"))).await, Err(WireError::NotSent(_))));
    });
}

#[test]
fn outside_a_runtime_a_link_has_a_thread_of_its_own() {
    let other = tokio::runtime::Runtime::new().unwrap();
    let peer = other.block_on(Peer::new());
    let (listener, _received) = listener();
    let link = Link::open(peer.endpoint.clone(), Arc::new(patient()), listener);
    let answer = link.send(echo("x"));
    drop(link.send(echo("last").posted()));
    other.block_on(async {
        let mut remote = peer.connection().await;
        assert_eq!(remote.request().await[1], "x");
        remote.say(":1\r\n").await;
        assert_eq!(within(answer).await, Ok(Value::Int(1)));
        assert_eq!(remote.request().await[1], "last");
        drop(link);
        remote.say(":2\r\n").await;
        assert_eq!(remote.next().await, [""; 0]);
    });
}

#[tokio::test]
async fn a_forked_child_sends_nothing() {
    let peer = Peer::new().await;
    let (listener, _received) = listener();
    let link = Link::of_another_process(peer.endpoint.clone(), patient(), listener);
    let mut remote = peer.connection().await;
    within(link.ready()).await.unwrap();
    let answer = within(link.send(echo("x"))).await;
    assert!(matches!(&answer, Err(WireError::NotSent(why)) if why.contains("fork")), "{answer:?}");
    link.subscribe(b"mine".to_vec(), false);
    link.reset("from the child");
    drop(link);
    // The peer sees nothing at all.
    tokio::time::timeout(std::time::Duration::from_millis(200), remote.next()).await.unwrap_err();
}

#[tokio::test]
async fn an_abandoned_link_writes_nothing_any_more() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    let written = link.send(echo("written"));
    let unwritten = link.send(echo("unwritten"));
    link.abandon("it is a replica now");
    assert_eq!(received.now(), [Sound::Disconnected]);
    assert!(
        matches!(within(written).await, Err(WireError::Broken(why)) if why.ends_with("it is a replica now"))
    );
    assert!(
        matches!(within(unwritten).await, Err(WireError::NotSent(why)) if why.ends_with("it is a replica now"))
    );
    assert!(matches!(within(link.send(echo("later"))).await, Err(WireError::NotSent(_))));
    assert_eq!(remote.request().await[1], "written");
    assert_eq!(remote.next().await, [""; 0]);
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(200), peer.accept()).await.is_err()
    );
    assert_eq!(received.now(), []);
}

#[tokio::test]
async fn a_replica_is_no_server_where_only_a_master_is() {
    let peer = Peer::new().await;
    let link = Link::open(
        peer.endpoint.clone(),
        Arc::new(Settings { only_master: true, ..patient() }),
        listener().0,
    );
    let mut remote = peer.accept().await;
    remote.request().await;
    remote.say("%1\r\n+role\r\n+replica\r\n").await;
    remote.prepare().await;
    assert!(within(link.ready()).await.unwrap_err().to_string().ends_with("it is a replica"));
    let mut remote = peer.connection().await;
    drop(link.send(echo("x")));
    assert_eq!(remote.request().await[1], "x");
    assert_eq!(within(link.ready()).await.unwrap().role, Role::Master);
}

/// The store checked the role when it was opened. The address may lead to another server later.
#[tokio::test]
async fn a_former_master_that_returns_as_a_replica_is_not_used() {
    let peer = Peer::new().await;
    let (link, remote, mut received) =
        peer.link(Settings { stays_master: true, ..patient() }).await;
    drop(remote);
    assert_eq!(received.next().await, Sound::Disconnected);
    let answer = link.send(echo("x"));
    let mut remote = peer.accept().await;
    remote.request().await;
    remote.say("%1\r\n+role\r\n+replica\r\n").await;
    remote.prepare().await;
    assert_eq!(remote.next().await, [""; 0], "the connection is closed");
    let mut remote = peer.connection().await;
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(":1\r\n").await;
    assert_eq!(within(answer).await, Ok(Value::Int(1)));
}
