//! Faults that were found and mended, each with the steps that showed it.

use std::time::{Duration, Instant};

use lockkeeper::ErrorKind;
use lockkeeper::store::{Interest, Revision, Wake};
use lockkeeper_live::locks::connected;
use lockkeeper_live::{Redis, Redlock, Way, with};

use crate::support::{
    LONG, SLOW, TIME_LIMIT, TTL, behind_proxies, holders, keeper, line_key, lock, name, renewed,
    scripts_run, tried, until, until_holding, until_waiting, waited_for, waiter, within,
};

/// An attempt is turned away by two servers, and its connection to the third one is cut before the
/// withdrawal. The claim there is withdrawn as soon as the server can be reached again.
#[tokio::test]
async fn a_withdrawal_that_fails_at_once_is_sent_again() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (direct, behind) =
        (keeper(&servers.url(), LONG).await, keeper(&servers.url_through(&proxies), LONG).await);
    let held = lock(&direct, &name).await;
    until_holding(&servers, &name, 3).await;
    let third = &servers.nodes()[2];
    third.run(&["DEL", &line_key(&name)]).unwrap();
    for proxy in &proxies[..2] {
        proxy.delay(Way::ToClient, Duration::from_millis(200));
    }
    proxies[2].hold(Way::ToClient);
    let attempt = async { tried(&behind, &name).await.unwrap() };
    let cut = async {
        until(|| holders(third, &name).len() == 1).await;
        proxies[2].refuse();
        proxies[2].cut();
    };
    let (got, ()) = tokio::join!(attempt, cut);
    assert!(got.is_none(), "it is held");
    proxies.iter().for_each(|proxy| proxy.heal());
    proxies[2].accept().unwrap();
    within(Duration::from_secs(5), until(|| holders(third, &name).is_empty())).await;
    held.release().await.unwrap();
}

/// A server loses the claim of the holder, and lets the first waiter claim next. The holder takes
/// the server with its next renewal all the same, so the lock outlasts the death of another one.
#[tokio::test]
async fn a_waiter_keeps_no_holder_off_a_server() {
    let (mut servers, name) = (Redlock::start().unwrap(), name());
    let holder = keeper(&servers.url(), TTL * 2).await;
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    let of_holder = holders(&servers.nodes()[1], &name);
    let waiter = waiter(&keeper(&servers.url(), LONG).await, &name);
    until_waiting(servers.nodes(), 1, &name).await;
    servers.nodes()[0].run(&["DEL", &line_key(&name)]).unwrap();
    within(TIME_LIMIT, until(|| holders(&servers.nodes()[0], &name) == of_holder)).await;
    servers.node(1).kill().unwrap();
    tokio::time::sleep(TTL * 4).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    within(TIME_LIMIT, waiter).await.unwrap().release().await.unwrap();
}

/// The holder has a majority without one server, which lets the first waiter claim next. The waiter
/// does not ask without a pause for the whole hold.
#[tokio::test]
async fn a_waiter_that_one_server_lets_claim_asks_seldom() {
    const LASTS: Duration = Duration::from_secs(2);
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let holder = keeper(&servers.url_through(&proxies), LONG).await;
    let other = keeper(&servers.url(), LONG).await;
    proxies[0].refuse();
    proxies[0].cut();
    let guard = lock(&holder, &name).await;
    let waiter = waiter(&other, &name);
    until_waiting(&servers.nodes()[1..], 1, &name).await;
    let before = scripts_run(&servers.nodes()[0]);
    tokio::time::sleep(LASTS).await;
    let asked = scripts_run(&servers.nodes()[0]) - before;
    assert!(asked < 60, "{asked} requests in {LASTS:?}");
    guard.release().await.unwrap();
    within(TIME_LIMIT, waiter).await.unwrap().release().await.unwrap();
}

/// The waiter of a ticket, on a lock that nobody holds: an exclusive one.
fn waits_with(ticket: u64) -> Revision {
    Revision(1 << 63 | 1 << 62 | ticket)
}

/// Waiters of a lock that nobody holds, and the earlier one takes the place of the later one. All
/// that they leave on the servers ends by itself.
#[tokio::test]
async fn what_waiters_leave_behind_ends_by_itself() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let url = with(&servers.url(), SLOW);
    let (one, two) = (connected(&url).await, connected(&url).await);
    let parsed = name.parse().unwrap();
    for (store, ticket) in [(&two, 20), (&one, 10)] {
        let woken = store.wait(Interest::Name(&parsed), waits_with(ticket), LONG).await.unwrap();
        assert_eq!(woken, Wake::Changed);
    }
    let (line, waiting) = (line_key(&name), line_key(&name) + ":w");
    for node in servers.nodes() {
        assert!(node.query::<i64>(&["PTTL", &line]).unwrap() > 0, "the line has no end");
        let left: i64 = node.query(&["PTTL", &waiting]).unwrap();
        assert_ne!(left, -1, "the waiters have no end");
    }
}

/// Servers without memory take no waiter. It asks again now and then.
#[tokio::test]
async fn a_waiter_on_full_servers_asks_with_pauses() {
    const LASTS: Duration = Duration::from_secs(2);
    let (servers, name) = (Redlock::start().unwrap(), name());
    let (holder, other) = (keeper(&servers.url(), LONG).await, keeper(&servers.url(), LONG).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.nodes().iter().for_each(|node| node.set("maxmemory", "1mb").unwrap());
    let before: Vec<_> = servers.nodes().iter().map(scripts_run).collect();
    let mutex = other.mutex(&*name).unwrap();
    drop(tokio::time::timeout(LASTS, async { mutex.lock().await }).await);
    for (node, before) in servers.nodes().iter().zip(before) {
        let asked = scripts_run(node) - before;
        assert!(asked < 80, "{asked} requests in {LASTS:?}");
    }
    guard.release().await.unwrap();
}

/// The clocks go back while the servers are full: the renewal keeps the new life.
#[tokio::test]
async fn clocks_that_go_back_fail_no_renewal_on_full_servers() {
    let ((servers, _proxies), name) = (behind_proxies(3), name());
    let guard = lock(&keeper(&servers.url(), LONG).await, &name).await;
    until_holding(&servers, &name, 3).await;
    for node in servers.nodes() {
        node.set_clock_offset(-60).unwrap();
        node.set("maxmemory", "1mb").unwrap();
    }
    within(TIME_LIMIT, renewed(&guard)).await;
    guard.release().await.unwrap();
}

/// The servers are not equally far away. Two waiters hand the lock on without a long pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_at_several_distances_cause_no_livelock() {
    const HAND_OFFS: usize = 30;
    let ((servers, proxies), name) = (behind_proxies(5), name());
    for (proxy, delay) in proxies.iter().zip([5, 15, 25, 35, 45]) {
        proxy.delay(Way::Both, Duration::from_millis(delay));
    }
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (keeper, name) = (keeper(&servers.url_through(&proxies), LONG).await, name.clone());
        tasks.push(tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..HAND_OFFS / 2 {
                let began = Instant::now();
                let guard = waited_for(keeper.clone(), name.clone()).await;
                longest = longest.max(began.elapsed());
                guard.release().await.unwrap();
            }
            longest
        }));
    }
    for task in tasks {
        let longest = task.await.unwrap();
        eprintln!("the longest wait: {longest:?}");
        assert!(longest < Duration::from_secs(1), "{longest:?}");
    }
}

/// A client behind others was cut off when its turn came. It asks again as soon as it has a
/// connection, and not when its pause is over.
#[tokio::test]
async fn a_later_waiter_that_missed_its_turn_asks_when_it_is_connected() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (direct, behind) =
        (keeper(&servers.url(), LONG).await, keeper(&servers.url_through(&proxies), LONG).await);
    let mut fastest = Duration::MAX;
    for _ in 0..6 {
        let first = lock(&direct, &name).await;
        let second = waiter(&direct, &name);
        until_waiting(servers.nodes(), 1, &name).await;
        let third = waiter(&behind, &name);
        until_waiting(servers.nodes(), 2, &name).await;
        for proxy in &proxies {
            proxy.refuse();
            proxy.cut();
        }
        first.release().await.unwrap();
        second.await.unwrap().release().await.unwrap();
        until_waiting(servers.nodes(), 0, &name).await;
        let began = Instant::now();
        proxies.iter().for_each(|proxy| proxy.accept().unwrap());
        let guard = within(TIME_LIMIT, third).await.unwrap();
        fastest = fastest.min(began.elapsed());
        guard.release().await.unwrap();
    }
    eprintln!("the fastest hand-off after a cut: {fastest:?}");
    assert!(fastest < Duration::from_millis(300), "{fastest:?}");
}

/// A release does not reach one server, so the waiter gets the lock on the other two. It waits on
/// no server any more.
#[tokio::test]
async fn a_client_that_has_the_lock_waits_nowhere() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (holder, other) =
        (keeper(&servers.url_through(&proxies), LONG).await, keeper(&servers.url(), LONG).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    let waiter = waiter(&other, &name);
    until_waiting(servers.nodes(), 1, &name).await;
    proxies[2].hold(Way::ToServer);
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiter).await.unwrap();
    within(Duration::from_secs(3), until_waiting(servers.nodes(), 0, &name)).await;
    next.release().await.unwrap();
}

/// K4 with two clients that do not have the same `max-keep`. The second one would count a server
/// that has forgotten the lock of the first one, so it is refused.
#[tokio::test]
async fn k4_clients_with_another_max_keep_are_refused() {
    let mut servers = Redlock::start().unwrap();
    let first = keeper(&(servers.url() + "?max-keep=60s"), LONG).await;
    let guard = lock(&first, &name()).await;
    servers.node(1).restart_empty().unwrap();
    let (short, ttl) = (servers.url() + "?max-keep=2s", Duration::from_millis(1700));
    let second = lockkeeper::Keeper::from_url(&*short).unwrap().ttl(ttl);
    let error = second.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let text = error.to_string();
    assert!(text.contains("max-keep=1m") && text.contains("max-keep=2s"), "{text}");
    let found = lockkeeper::doctor::examine(&short.parse().unwrap(), TIME_LIMIT).await;
    let found = found.iter().find(|found| found.check == "max-keep").expect("a finding");
    assert_eq!(found.level, lockkeeper::doctor::Level::Fail, "{found:?}");
    guard.release().await.unwrap();
    // An operator may choose another one.
    lockkeeper::doctor::initialize(&short.parse().unwrap()).await.unwrap();
    keeper(&short, ttl).await;
}

/// The key of the id has a value of another program. Locks need no id.
#[tokio::test]
async fn a_foreign_value_in_the_place_of_the_id_keeps_no_lock_away() {
    let servers = Redlock::of(3, &Redis::builder()).unwrap();
    let node = &servers.nodes()[0];
    node.run(&["SET", "lk:r:id", "theirs"]).unwrap();
    let client = keeper(&servers.url(), TTL).await;
    lock(&client, &name()).await.release().await.unwrap();
    assert_eq!(node.query::<String>(&["GET", "lk:r:id"]).unwrap(), "theirs");
}
