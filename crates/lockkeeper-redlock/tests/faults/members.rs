//! Clients with other servers, whose majorities need not share a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::doctor::{Level, examine, initialize};
use lockkeeper::{Error, ErrorKind, Keeper, LostReason, RedlockStore};
use lockkeeper_live::{Act, Proxy, Redis, Redlock, Way};

use crate::support::{
    TIME_LIMIT, TTL, keeper, line_key, lock, name, renewed, tried, until_holding, within,
};

/// The URL of a Redlock on some of these servers.
fn url(servers: &Redlock, nodes: impl IntoIterator<Item = usize>) -> String {
    let address = |node: usize| servers.nodes()[node].address().to_string();
    format!("redlock://{}", nodes.into_iter().map(address).collect::<Vec<_>>().join(","))
}

async fn refused(url: &str) -> Error {
    Keeper::from_url(url).unwrap().connect().await.map(drop).unwrap_err()
}

fn is_about_others(error: &Error) {
    let kinds = [ErrorKind::Unsupported, ErrorKind::Unavailable];
    assert!(kinds.contains(&error.kind()), "{error}");
    assert!(error.to_string().contains("its clients have the servers 1"), "{error}");
    assert!(error.remedy().unwrap().starts_with("the same servers for all clients"), "{error}");
}

#[tokio::test]
async fn a_client_with_other_servers_gets_no_lock() {
    let (servers, name) = (Redlock::of(5, &Redis::builder()).unwrap(), name());
    let first = keeper(&url(&servers, 0..3), TTL).await;
    let guard = lock(&first, &name).await;
    for others in [vec![2, 3, 4], vec![0, 1, 2, 3, 4], vec![0, 1, 3]] {
        let others = url(&servers, others);
        let error = refused(&others).await;
        is_about_others(&error);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "a wrong setting");
        let found = examine(&others.parse().unwrap(), TIME_LIMIT).await;
        assert!(
            found.iter().any(|found| found.check == "members" && found.level == Level::Fail),
            "{found:?}"
        );
    }
    // In another order, and by other names.
    let localhost = url(&servers, 0..3).replace("127.0.0.1", "localhost");
    let members = url(&servers, 0..3).replace("redlock://", "members=");
    for same in [url(&servers, [2, 0, 1]), format!("{localhost}?{members}")] {
        assert!(tried(&keeper(&same, TTL).await, &name).await.unwrap().is_none(), "{same}");
    }
    renewed(&guard).await;
    guard.release().await.unwrap();
}

/// The only server that both have was away when the second client came.
#[tokio::test]
async fn a_client_stops_when_it_reaches_a_server_whose_clients_have_others() {
    let (servers, name) = (Redlock::of(5, &Redis::builder()).unwrap(), name());
    let shared = Proxy::resp(servers.nodes()[2].address()).unwrap();
    shared.refuse();
    let members = url(&servers, 2..5).replace("redlock://", "members=");
    let through = url(&servers, 2..5)
        .replace(&servers.nodes()[2].address().to_string(), &shared.address().to_string());
    let second = keeper(&format!("{through}?{members}"), TTL).await;
    let theirs = lock(&second, &name).await;
    let first = keeper(&url(&servers, 0..3), TTL).await;
    let ours = lock(&first, &name).await;
    shared.accept().unwrap();
    let stops = async {
        loop {
            match theirs.renew_once().await {
                Err(error) if error.to_string().contains("its clients have") => return error,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    is_about_others(&within(TIME_LIMIT, stops).await);
    is_about_others(&tried(&second, "another").await.unwrap_err());
    assert_eq!(within(TIME_LIMIT, theirs.lost()).await, LostReason::Expired);
    renewed(&ours).await;
    ours.release().await.unwrap();
}

/// The old clients cannot renew their locks from now on, and nobody gets a lock that they may hold.
#[tokio::test]
async fn a_server_in_the_place_of_another_one_counts_when_the_locks_of_before_have_ended() {
    let (servers, name) = (Redlock::of(4, &Redis::builder()).unwrap(), name());
    let keep = "?max-keep=1m";
    let old = keeper(&(url(&servers, 0..3) + keep), TTL).await;
    let held = lock(&old, &name).await;
    let before = servers.nodes()[3].time().unwrap();
    let changed = url(&servers, [0, 1, 3]) + keep;
    let changes = async || {
        let found = initialize(&changed.parse().unwrap()).await.unwrap();
        let later =
            format!("all 3 servers have the list; {}: counts in", servers.nodes()[3].address());
        assert!(found.finding.starts_with(&later), "{found:?}");
        let born: [String; 3] =
            [0, 1, 3].map(|node| servers.nodes()[node].query(&["GET", "lk:born"]).unwrap());
        let since = |born: &String| born.split(' ').nth(1).unwrap().parse::<u128>().unwrap();
        assert_eq!((since(&born[0]), since(&born[1])), (0, 0), "they have forgotten nothing");
        assert!(since(&born[2]) >= before.as_millis(), "{born:?}");
    };
    changes().await;
    is_about_others(&held.renew_once().await.unwrap_err());
    let next = lock(&keeper(&changed, TTL).await, &name).await;
    assert!(held.check().is_err() && next.token() > held.token());
    next.release().await.unwrap();
    until_holding(&servers, &name, 0).await;
    // A second time lets the new server count no sooner.
    changes().await;
}

/// Two other servers are a majority, and answer at once.
#[tokio::test]
async fn a_client_asks_a_slow_server_before_it_has_its_first_lock() {
    let (servers, name) = (Redlock::of(5, &Redis::builder()).unwrap(), name());
    let shared = Proxy::resp(servers.nodes()[2].address()).unwrap();
    let members = url(&servers, [3, 4, 2]).replace("redlock://", "members=");
    let through = url(&servers, [3, 4, 2])
        .replace(&servers.nodes()[2].address().to_string(), &shared.address().to_string());
    let second = keeper(&format!("{through}?{members}"), TTL).await;
    let held = lock(&keeper(&url(&servers, 0..3), TTL).await, &name).await;
    // The client has a connection to the server when it asks it for a line.
    let (asked, line) = (Arc::new(AtomicBool::new(false)), line_key(&name));
    let seen = Arc::clone(&asked);
    shared.on_request(move |request| {
        seen.fetch_or(request.contains(&line), Ordering::Relaxed);
        Act::Pass
    });
    let connected = async {
        while !asked.load(Ordering::Relaxed) {
            second.inspect(&*name).await.unwrap();
        }
    };
    within(TIME_LIMIT, connected).await;
    shared.delay(Way::ToClient, Duration::from_millis(25));
    // The server is late from now on, and no attempt waits for it twice.
    second.inspect(&*name).await.unwrap();
    is_about_others(&tried(&second, &name).await.unwrap_err());
    renewed(&held).await;
}

/// The server has its list back, or is gone: the client goes on by itself.
#[tokio::test]
async fn a_client_that_was_refused_goes_on_when_the_cause_is_gone() {
    let (mut servers, name) = (Redlock::of(3, &Redis::builder()).unwrap(), name());
    let keeper = keeper(&servers.url(), TTL).await;
    let guard = lock(&keeper, &name).await;
    let born: String = servers.nodes()[2].query(&["GET", "lk:born"]).unwrap();
    let others = born.replace("127.0.0.1", "10.0.0.1");
    let refused = async |name: &str| {
        loop {
            match tried(&keeper, name).await {
                Err(error) => return is_about_others(&error),
                Ok(guard) => drop(guard),
            }
        }
    };
    servers.nodes()[2].run(&["SET", "lk:born", &others]).unwrap();
    within(TIME_LIMIT, refused("another")).await;
    is_about_others(&guard.renew_once().await.unwrap_err());
    servers.nodes()[2].run(&["SET", "lk:born", &born]).unwrap();
    renewed(&guard).await;
    tried(&keeper, "another").await.unwrap().expect("it is free").release().await.unwrap();
    servers.nodes()[2].run(&["SET", "lk:born", &others]).unwrap();
    within(TIME_LIMIT, refused("another")).await;
    servers.node(2).kill().unwrap();
    renewed(&guard).await;
    lock(&keeper, "another").await.release().await.unwrap();
}

/// A server was away when its Redlock got another one. Too few servers have the old list for a
/// majority.
#[tokio::test]
async fn a_server_that_comes_back_with_a_replaced_list_stops_nobody() {
    let (mut servers, name) = (Redlock::of(6, &Redis::builder()).unwrap(), name());
    let (old, new) = (url(&servers, 0..5), url(&servers, [0, 1, 2, 4, 5]));
    lock(&keeper(&old, TTL).await, &name).await.release().await.unwrap();
    let before: String = servers.nodes()[4].query(&["GET", "lk:born"]).unwrap();
    until_holding(&servers, &name, 0).await;
    initialize(&new.parse().unwrap()).await.unwrap();
    let running = keeper(&new, TTL).await;
    lock(&running, &name).await.release().await.unwrap();
    servers.nodes()[4].run(&["SET", "lk:born", &before]).unwrap();
    for client in [&running, &keeper(&new, TTL).await] {
        let guard = lock(client, &name).await;
        renewed(&guard).await;
        guard.release().await.unwrap();
    }
    // A majority of three is left.
    servers.node(5).kill().unwrap();
    let guard = lock(&running, &name).await;
    renewed(&guard).await;
    guard.release().await.unwrap();
    servers.node(5).restart_empty().unwrap();
    is_about_others(&refused(&old).await);
    // The server gets the list again, and the others count as before.
    initialize(&new.parse().unwrap()).await.unwrap();
    lock(&running, &name).await.release().await.unwrap();
    // So it does while a server is away: a majority has the list.
    servers.nodes()[4].run(&["SET", "lk:born", &before]).unwrap();
    servers.node(0).pause().unwrap();
    initialize(&new.parse().unwrap()).await.unwrap();
    servers.node(0).resume().unwrap();
}

/// The server counts with its old memory until it learns that it was not among the others.
#[tokio::test]
async fn a_list_is_replaced_only_when_all_of_its_servers_are_there() {
    let (mut servers, name) = (Redlock::of(4, &Redis::builder()).unwrap(), name());
    let (first, second) = (url(&servers, [0, 1, 3]), url(&servers, 0..3));
    lock(&keeper(&first, TTL).await, &name).await.release().await.unwrap();
    until_holding(&servers, &name, 0).await;
    initialize(&second.parse().unwrap()).await.unwrap();
    servers.node(3).pause().unwrap();
    let error = initialize(&first.parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.remedy().unwrap().starts_with("again when all are there"), "{error}");
    servers.node(3).resume().unwrap();
    let found = initialize(&first.parse().unwrap()).await.unwrap();
    let later = format!("{}: counts in", servers.nodes()[3].address());
    assert!(found.finding.contains(&later), "{found:?}");
}

/// The server that is away has the lock, and the one that is there has forgotten it.
#[tokio::test]
async fn nothing_counts_at_once_while_a_server_that_may_know_more_is_away() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let _held = lock(&keeper(&servers.url(), TTL).await, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.nodes()[1].run(&["FLUSHALL"]).unwrap();
    servers.nodes()[2].run(&["FLUSHALL"]).unwrap();
    servers.node(0).pause().unwrap();
    let error = initialize(&servers.url().parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("may have forgotten a lock of another one"), "{error}");
    servers.node(0).resume().unwrap();
}

/// Each has read that no server has a list.
#[tokio::test]
async fn clients_that_initialize_the_same_servers_at_once_all_succeed() {
    let servers = Redlock::start().unwrap();
    for _ in 0..10 {
        servers.nodes().iter().for_each(|node| node.run(&["DEL", "lk:born"]).unwrap());
        let hosts = || servers.nodes().iter().map(|node| node.address().to_string());
        let opening = || RedlockStore::new(hosts()).assume_fresh().connect();
        let (a, b, c, d) = tokio::join!(opening(), opening(), opening(), opening());
        assert!([a, b, c, d].iter().all(Result::is_ok));
    }
}
