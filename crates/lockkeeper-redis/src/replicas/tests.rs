use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::layout::Keys;
use crate::wire::Settings;
use lockkeeper_core::Effect;
use lockkeeper_redis_client::peer::{self, Peer, PeerConnection, RUN, echo, patient, within};

fn data() -> Data {
    Data { run: RUN.to_owned(), history: peer::HISTORY.to_owned() }
}

/// The peer receives the requests of a round.
async fn asks(remote: &mut PeerConnection) {
    for expected in ["SET", "WAIT", "INFO"] {
        assert_eq!(remote.request().await.remove(0), expected);
    }
}

/// The answers to a round: one replica, and this history.
async fn answer(remote: &mut PeerConnection, history: &str) {
    remote.say(&format!("+OK\r\n:1\r\n+master_replid:{history}\r\n")).await;
}

/// The master takes nothing any more, so that a round stays unwritten; then the connection is
/// lost.
#[tokio::test]
async fn no_part_of_a_round_goes_to_another_connection() {
    let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
    let (master, _remote, _received) = peer.link(patient()).await;
    let replicas = Arc::new(Replicas::needed(1).unwrap());
    let asked = || {
        let (replicas, master, mark) = (Arc::clone(&replicas), master.clone(), mark.clone());
        tokio::spawn(async move { replicas.have_it(&master, &data(), &mark, false).await })
    };
    let first = asked();
    let mut remote = peer.connection().await;
    assert_eq!(remote.request().await[0], "SET");
    // For half of the time that an answer may take.
    assert_eq!(remote.request().await, ["WAIT", "1", "15000"]);
    assert_eq!(remote.request().await, ["INFO", "replication"]);
    answer(&mut remote, peer::HISTORY).await;
    within(first).await.unwrap().unwrap();

    let link = replicas.rounds(master.endpoint(), &data()).link().unwrap();
    let mut writes = 0;
    while link.writes() != std::mem::replace(&mut writes, link.writes()) {
        drop(link.send(echo(&"x".repeat(4 << 20))));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let data = data();
    let mut second = pin!(replicas.have_it(&master, &data, &mark, false));
    assert!(matches!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    drop(remote);
    let error = within(second).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );

    let third = asked();
    let mut remote = peer.connection().await;
    asks(&mut remote).await;
    answer(&mut remote, peer::HISTORY).await;
    within(third).await.unwrap().unwrap();
}

#[test]
fn a_server_without_a_history_is_refused_only_where_replicas_count() {
    let info = |text| Info::parse(text);
    assert_eq!(check(&info("role:master"), 1).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(check(&info("role:master"), 0).is_ok());
    assert!(check(&info("master_replid:a"), 1).is_ok());
}

#[test]
fn who_needs_no_replicas_asks_for_none() {
    assert!(Replicas::needed(0).is_none() && Replicas::needed(1).is_some());
}

/// The first caller has a round alone. The callers that come meanwhile share the next round.
#[tokio::test]
async fn one_round_is_for_all_who_come_during_the_one_before() {
    let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
    let (master, _remote, _received) = peer.link(patient()).await;
    let replicas = Replicas::needed(1).unwrap();
    let data = data();
    let asked = || Box::pin(replicas.have_it(&master, &data, &mark, false));
    let (mut first, mut second, mut third) = (asked(), asked(), asked());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let mut remote = tokio::select! {
        _ = &mut first => panic!("nobody has answered"),
        remote = async {
            let mut remote = peer.connection().await;
            asks(&mut remote).await;
            remote
        } => remote,
    };
    assert!(
        second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending()
    );
    answer(&mut remote, peer::HISTORY).await;
    within(first).await.unwrap();
    assert!(second.as_mut().poll(&mut cx).is_pending());
    asks(&mut remote).await;
    answer(&mut remote, peer::HISTORY).await;
    within(second).await.unwrap();
    within(third).await.unwrap();
}

/// The master was restarted between its answer and the look at its replicas: they have followed
/// the new one.
#[tokio::test]
async fn replicas_of_a_restarted_master_confirm_no_earlier_grant() {
    let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
    let (master, _remote, _received) = peer.link(patient()).await;
    let replicas = Arc::new(Replicas::needed(1).unwrap());
    let asked = {
        let (replicas, master) = (Arc::clone(&replicas), master.clone());
        let before = Data { run: "the run before".to_owned(), ..data() };
        tokio::spawn(async move { replicas.have_it(&master, &before, &mark, false).await })
    };
    let mut remote = peer.connection().await;
    let error = within(asked).await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    assert_eq!(remote.next().await, [""; 0], "nothing was asked of it");
}

/// The master was a replica between its answer and the look at its replicas: they have its
/// present data, and not the grant.
#[tokio::test]
async fn replicas_of_a_master_with_another_history_confirm_no_grant() {
    let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
    let settings = Settings { asks_history: true, ..patient() };
    let (master, mut before, _received) = peer.link(settings).await;
    let replicas = Arc::new(Replicas::needed(1).unwrap());
    let asked = {
        let (replicas, master) = (Arc::clone(&replicas), master.clone());
        tokio::spawn(async move { replicas.have_it(&master, &data(), &mark, false).await })
    };
    let mut remote = peer.connection().await;
    asks(&mut remote).await;
    answer(&mut remote, "a-later-history").await;
    let error = within(asked).await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    assert_eq!(before.next().await, [""; 0], "the next connection shows the present data");
}

/// The master accepts no new connection: each caller learns that after the time of one attempt,
/// and not behind the attempts of all callers before it.
#[tokio::test]
async fn the_callers_behind_a_failed_round_do_not_wait_for_a_round_each() {
    const CALLERS: u32 = 6;
    let (peer, mark) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()).mark());
    let limit = Duration::from_millis(1000);
    let (master, _remote, _received) =
        peer.link(Settings { timeout: limit, connect_timeout: limit, ..patient() }).await;
    let replicas = Arc::new(Replicas::needed(1).unwrap());
    let began = std::time::Instant::now();
    // The peer takes each further connection, and says nothing.
    let asked: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (replicas, master) = (Arc::clone(&replicas), master.clone());
            let mark = mark.clone();
            tokio::spawn(async move { replicas.have_it(&master, &data(), &mark, false).await })
        })
        .collect();
    for asked in asked {
        let error = within(asked).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(began.elapsed() < limit * 3, "{:?} for {CALLERS} callers", began.elapsed());
}

/// In a Cluster the nodes may get other addresses again and again.
#[tokio::test]
async fn the_rounds_of_former_masters_are_forgotten() {
    let mut replicas = Replicas::needed(1).unwrap();
    replicas.kept = Duration::ZERO;
    for port in 1..=20 {
        let master = Endpoint { host: "h".to_owned(), port };
        drop(replicas.rounds(&master, &data()));
    }
    assert_eq!(lock(&replicas.masters).len(), 1);
}
