//! Servers without fsync are killed and started again: what they had not written is gone.

use std::time::{Duration, Instant};

use lockkeeper_live::{Redis, Redlock};

use crate::support::{
    TIME_LIMIT, holding, keeper, lock, name, renewed, tried, until_holding, within,
};

/// A restarted server does not count for so long.
const KEEP: Duration = Duration::from_secs(3);
/// The ttl of the holders.
const TTL: Duration = Duration::from_secs(2);

fn without_fsync() -> Redlock {
    let settings = Redis::builder().config("appendonly", "yes").config("appendfsync", "no");
    Redlock::of(3, &settings).unwrap()
}

/// One server of three is started again, with what it has of its data or with none. The holder
/// keeps the lock, and no other client gets it. When the server counts again, it stands in for
/// another one.
#[tokio::test]
async fn one_restart_without_fsync_costs_nothing() {
    tokio::join!(one_is_restarted(false), one_is_restarted(true));
}

async fn one_is_restarted(is_empty: bool) {
    let (mut servers, name) = (without_fsync(), name());
    let url = servers.url() + "?max-keep=3s";
    let (holder, other) = (keeper(&url, TTL).await, keeper(&url, TTL).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    restart(servers.node(0), is_empty);
    let restarted = Instant::now();
    while restarted.elapsed() < KEEP + TTL {
        assert!(!matches!(tried(&other, &name).await, Ok(Some(_))), "it was given away");
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A server that has forgotten the lock cannot confirm it: the next lock has all servers.
    let token = guard.token();
    guard.release().await.unwrap();
    let next = lock(&other, &name).await;
    assert!(next.token() > token);
    until_holding(&servers, &name, 3).await;
    servers.node(1).kill().unwrap();
    renewed(&next).await;
    assert!(!matches!(tried(&holder, &name).await, Ok(Some(_))), "it was given away");
    next.release().await.unwrap();
}

/// Two servers of three are started again, and have forgotten all. The lock is lost, since the
/// third server is no majority, and no other client has it before.
#[tokio::test]
async fn two_restarts_without_fsync_give_no_lock_away() {
    let (mut servers, name) = (without_fsync(), name());
    let url = servers.url() + "?max-keep=3s";
    let (holder, other) = (keeper(&url, TTL).await, keeper(&url, TTL).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    for node in 0..2 {
        restart(servers.node(node), true);
    }
    let restarted = Instant::now();
    assert_eq!(holding(&servers, &name), 1);
    let next = within(TIME_LIMIT, lock(&other, &name)).await;
    assert!(guard.check().is_err(), "two believe in it at the same time");
    assert!(restarted.elapsed() >= KEEP - Duration::from_millis(100), "{:?}", restarted.elapsed());
    assert!(next.token() > guard.token());
    until_holding(&servers, &name, 3).await;
    next.release().await.unwrap();
}

fn restart(node: &mut Redis, is_empty: bool) {
    match is_empty {
        true => node.restart_empty().unwrap(),
        false => node.restart().unwrap(),
    }
}
