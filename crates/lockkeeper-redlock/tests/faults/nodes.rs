//! Some of the servers are dead, slow, cut off, or have forgotten their locks.

use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::{Redlock, Way, with};

use crate::support::{
    ByHand, LONG, SLOW, TIME_LIMIT, TTL, behind_proxies, holding, keeper, line_key, lock, name,
    renewed, scripts_run, tried, until_holding, until_waiting, waiter, within,
};

#[tokio::test]
async fn one_dead_server_of_three_costs_nothing() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    servers.node(1).kill().unwrap();
    let (one, two) = (keeper(&servers.url(), LONG).await, keeper(&servers.url(), LONG).await);
    let mut last = None;
    for keeper in [&one, &two, &one] {
        let guard = lock(keeper, &name).await;
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        renewed(&guard).await;
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_dies_while_a_lock_is_held_loses_no_lock() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let (holder, other) = (keeper(&servers.url(), TTL).await, keeper(&servers.url(), TTL).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.node(0).kill().unwrap();
    tokio::time::sleep(TTL * 2).await;
    guard.check().unwrap();
    assert!(tried(&other, &name).await.unwrap().is_none());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = lock(&other, &name).await;
    assert!(next.token() > token);
    next.release().await.unwrap();
}

#[tokio::test]
async fn two_dead_servers_of_three_end_the_hold_in_time_and_are_named() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let holder = keeper(&servers.url(), TTL).await;
    let guard = lock(&holder, &name).await;
    let began = Instant::now();
    servers.node(0).kill().unwrap();
    servers.node(2).kill().unwrap();
    assert_eq!(within(TIME_LIMIT, guard.lost()).await, LostReason::Expired);
    assert!(began.elapsed() < TTL + Duration::from_secs(1), "{:?}", began.elapsed());
    let error = within(TIME_LIMIT, tried(&holder, "another")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for (at, node) in servers.nodes().iter().enumerate() {
        let is_named = error.to_string().contains(&format!("{}: unreachable", node.address()));
        assert_eq!(is_named, at != 1, "{error}");
    }
}

/// No attempt waits for the slow server.
#[tokio::test]
async fn one_slow_server_slows_nothing_down() {
    const DELAY: Duration = Duration::from_millis(100);
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let keeper = keeper(&servers.url_through(&proxies), LONG).await;
    proxies[2].delay(Way::ToClient, DELAY);
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let began = Instant::now();
        let guard = lock(&keeper, &name).await;
        renewed(&guard).await;
        guard.release().await.unwrap();
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < DELAY, "{fastest:?} for an acquire, a renewal and a release");
}

/// No hand-off waits for the slow server either, although it also gets each release late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_server_holds_up_no_hand_off() {
    const DELAY: Duration = Duration::from_millis(100);
    for way in [Way::ToServer, Way::Both] {
        let ((servers, proxies), name) = (behind_proxies(3), name());
        let url = servers.url_through(&proxies);
        let (holder, other) = (keeper(&url, LONG).await, keeper(&url, LONG).await);
        proxies[0].delay(way, DELAY);
        let mut fastest = Duration::MAX;
        for _ in 0..10 {
            let guard = lock(&holder, &name).await;
            let waiting = waiter(&other, &name);
            until_waiting(&servers.nodes()[1..], 1, &name).await;
            let (released, token) = (Instant::now(), guard.token());
            guard.release().await.unwrap();
            let next = within(TIME_LIMIT, waiting).await.unwrap();
            fastest = fastest.min(released.elapsed());
            assert!(next.token() > token);
            next.release().await.unwrap();
        }
        assert!(fastest < DELAY, "{way:?}: {fastest:?} for a hand-off");
    }
}

/// The claim of a client that has died is left on one server, and another one is slow. The lock is
/// free on a majority, so a waiter gets it, and does not ask all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_decides_where_a_dead_claim_is_left_on_another_one() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let url = servers.url_through(&proxies);
    let keeper = keeper(&url, LONG).await;
    let dies = ByHand::connect(&with(&url, SLOW), &name).await;
    assert!(dies.token(&dies.writer()).await.is_some());
    until_holding(&servers, &name, 3).await;
    for node in &servers.nodes()[1..] {
        node.run(&["DEL", &line_key(&name)]).unwrap();
    }
    proxies[2].delay(Way::ToClient, Duration::from_millis(100));
    lock(&keeper, "another").await.release().await.unwrap();
    let before = scripts_run(&servers.nodes()[0]);
    let guard = within(LONG / 2, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    let asked = scripts_run(&servers.nodes()[0]) - before;
    assert!(asked < 60, "{asked} scripts for one lock");
    assert_eq!(holding(&servers, &name), 3);
    guard.release().await.unwrap();
}

/// A release reaches a server that was cut off, and so does the withdrawal of an attempt that has
/// failed: nothing is left there.
#[tokio::test]
async fn what_a_server_missed_is_withdrawn_there_later() {
    for way in [Way::ToServer, Way::ToClient, Way::Both] {
        for cut in 0..3 {
            let ((servers, proxies), name) = (behind_proxies(3), name());
            let keeper = keeper(&servers.url_through(&proxies), LONG).await;
            proxies[cut].hold(way);
            let guard = lock(&keeper, &name).await;
            renewed(&guard).await;
            guard.release().await.unwrap();
            proxies[cut].heal();
            until_holding(&servers, &name, 0).await;
            let guard = lock(&keeper, &name).await;
            guard.release().await.unwrap();
            until_holding(&servers, &name, 0).await;
        }
    }
}

/// Two servers are cut off while an attempt is under way: it fails, and leaves nothing on the
/// third.
#[tokio::test]
async fn an_attempt_without_a_majority_leaves_nothing() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (cut_off, other) =
        (keeper(&servers.url_through(&proxies), LONG).await, keeper(&servers.url(), LONG).await);
    for proxy in &proxies[..2] {
        proxy.hold(Way::ToServer);
    }
    let error = within(TIME_LIMIT, tried(&cut_off, &name)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let guard = lock(&other, &name).await;
    proxies.iter().for_each(|proxy| proxy.heal());
    renewed(&guard).await;
    guard.release().await.unwrap();
    until_holding(&servers, &name, 0).await;
}

/// The server was down when the lock was acquired. A renewal takes it, so that the lock outlasts
/// the death of another server.
#[tokio::test]
async fn a_server_that_comes_back_is_taken_by_the_next_renewal() {
    let ((mut servers, proxies), name) = (behind_proxies(3), name());
    let holder = keeper(&servers.url_through(&proxies), TTL * 2).await;
    proxies[0].refuse();
    proxies[0].cut();
    let guard = lock(&holder, &name).await;
    assert_eq!(holding(&servers, &name), 2);
    proxies[0].accept().unwrap();
    until_holding(&servers, &name, 3).await;
    servers.node(1).kill().unwrap();
    tokio::time::sleep(TTL * 3).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// A server that was started again may have forgotten the lock. It does not count until a lock of
/// before cannot be held any more, and is named with its reason.
#[tokio::test]
async fn a_server_that_forgets_is_kept_out_for_a_whole_life() {
    const KEEP: Duration = Duration::from_secs(4);
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let url = servers.url() + "?max-keep=4s";
    let (holder, other) = (keeper(&url, KEEP / 2).await, keeper(&url, KEEP / 2).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.node(0).restart_empty().unwrap();
    let restarted = Instant::now();
    renewed(&guard).await;
    // With the server that has forgotten the lock, there would be a majority.
    servers.node(1).kill().unwrap();
    let mut named = false;
    while restarted.elapsed() < KEEP - Duration::from_millis(500) {
        match tried(&other, &name).await {
            Ok(None) => {}
            // A try may end later than it began.
            Ok(Some(_)) if restarted.elapsed() > KEEP - Duration::from_millis(100) => break,
            Ok(Some(_)) => panic!("a lock was given away after {:?}", restarted.elapsed()),
            Err(error) => named |= error.to_string().contains("may have forgotten locks"),
        }
    }
    assert!(named, "no error has named the server");
    let next = lock(&other, &name).await;
    assert!(restarted.elapsed() >= KEEP - Duration::from_millis(100));
    assert!(guard.check().is_err() && next.token() > guard.token());
    next.release().await.unwrap();
}

/// All servers are new. They count when they have run for a life, or when an operator says so.
#[tokio::test]
async fn new_servers_count_when_an_operator_says_so() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    for node in servers.nodes() {
        node.run(&["DEL", "lk:born"]).unwrap();
    }
    let keeper = keeper(&servers.url(), TTL).await;
    let error = tried(&keeper, &name).await.unwrap_err();
    assert!(error.remedy().unwrap_or_default().contains("doctor --init"), "{error}");
    let found = lockkeeper::doctor::initialize(&servers.url().parse().unwrap()).await.unwrap();
    assert_eq!(found.finding, "all 3 servers count now");
    tried(&keeper, &name).await.unwrap().expect("it is free").release().await.unwrap();
}

/// A server is stopped while a lock is held, and later gets what it has missed.
#[tokio::test]
async fn a_stopped_server_holds_up_no_other() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let keeper = keeper(&servers.url(), TTL).await;
    let guard = lock(&keeper, &name).await;
    servers.node(1).pause().unwrap();
    renewed(&guard).await;
    guard.release().await.unwrap();
    let guard = lock(&keeper, &name).await;
    let token = guard.token();
    guard.release().await.unwrap();
    servers.node(1).resume().unwrap();
    until_holding(&servers, &name, 0).await;
    let next = lock(&keeper, &name).await;
    assert!(next.token() > token);
    next.release().await.unwrap();
}

/// The servers have no log that is on the disk at once. All are killed and started again: nothing
/// is given away while a lock of before may be held, and tokens rise.
#[tokio::test]
async fn a_restart_without_fsync_gives_no_lock_away() {
    const KEEP: Duration = Duration::from_secs(3);
    let settings = lockkeeper_live::Redis::builder().config("appendonly", "yes");
    let settings = settings.config("appendfsync", "no");
    let (mut servers, name) = (Redlock::of(3, &settings).unwrap(), name());
    let url = servers.url() + "?max-keep=3s";
    let (holder, other) = (keeper(&url, KEEP).await, keeper(&url, KEEP).await);
    let guard = lock(&holder, &name).await;
    for node in servers.nodes_mut() {
        node.restart().unwrap();
    }
    let next = lock(&other, &name).await;
    assert!(guard.check().is_err(), "two believe in it at the same time");
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

/// The holder is dead when the clocks go back by an hour. Its lock ends when its life is over,
/// counted from the jump, and not an hour later.
#[tokio::test]
async fn clocks_that_go_back_do_not_prolong_a_dead_lock() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let dead = keeper(&servers.url_through(&proxies), TTL).await;
    let guard = lock(&dead, &name).await;
    for proxy in &proxies {
        proxy.refuse();
        proxy.cut();
    }
    for node in servers.nodes() {
        node.set_clock_offset(-3600).unwrap();
    }
    let next = lock(&keeper(&servers.url(), LONG).await, &name).await;
    assert!(guard.check().is_err() && next.token() > guard.token());
    next.release().await.unwrap();
}

/// One server is stopped before the client connects. The store opens on the other two without a
/// wait, and the server takes the lock when it answers.
#[tokio::test]
async fn a_silent_server_holds_up_no_opening_and_joins_later() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    keeper(&servers.url(), LONG).await;
    servers.node(1).pause().unwrap();
    let (mut fastest, mut client) = (Duration::MAX, None);
    for _ in 0..5 {
        let began = Instant::now();
        let keeper = keeper(&servers.url(), LONG).await;
        assert!(keeper.inspect(&*name).await.unwrap().holders.is_empty());
        assert!(keeper.admin().unwrap().list("", 9).await.unwrap().is_empty());
        fastest = fastest.min(began.elapsed());
        client = Some(keeper);
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?} to open, inspect and list");
    let guard = lock(&client.unwrap(), &name).await;
    servers.node(1).resume().unwrap();
    within(TIME_LIMIT, async {
        while holding(&servers, &name) < 3 {
            renewed(&guard).await;
        }
    })
    .await;
    guard.release().await.unwrap();
}

/// Two servers are stopped: the error of the opening names them, and comes before the time is over
/// that the caller has.
#[tokio::test]
async fn servers_that_are_silent_at_the_opening_are_named() {
    let mut servers = Redlock::start().unwrap();
    servers.node(0).pause().unwrap();
    servers.node(2).pause().unwrap();
    let mut url: lockkeeper::url::StoreUrl = servers.url().parse().unwrap();
    url.common.open_within = Some(Duration::from_millis(600));
    let began = Instant::now();
    let error = lockkeeper::Keeper::from_url(&url).unwrap().connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    for (at, node) in servers.nodes().iter().enumerate() {
        let is_named = error.to_string().contains(&format!("{}: no answer", node.address()));
        assert_eq!(is_named, at != 1, "{error}");
    }
}
