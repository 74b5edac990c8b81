//! Settings and data of others beside the locks, and what errors say of each server.

use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::store::{Evict, Evicted, Target};
use lockkeeper_live::{Act, Redlock, Way, with};

use crate::support::{
    ByHand, LONG, SLOW, TIME_LIMIT, TTL, behind_proxies, keeper, line_key, lock, name,
    until_holding, waiter, within,
};

/// The key of the waiters has a value of another program. Nobody is woken by a message, and nothing
/// else is worse: the lock goes on, and no server keeps a claim that its client does not know.
#[tokio::test]
async fn a_foreign_value_in_the_place_of_the_waiters_costs_only_time() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let key = line_key(&name) + ":w";
    servers.nodes().iter().for_each(|node| node.run(&["SET", &key, "theirs"]).unwrap());
    let (holder, other) = (keeper(&servers.url(), LONG).await, keeper(&servers.url(), LONG).await);
    let guard = lock(&holder, &name).await;
    until_holding(&servers, &name, 3).await;
    let waiter = waiter(&other, &name);
    tokio::time::sleep(Duration::from_millis(500)).await;
    guard.release().await.unwrap();
    within(TIME_LIMIT, waiter).await.unwrap().release().await.unwrap();
    until_holding(&servers, &name, 0).await;
    for node in servers.nodes() {
        assert_eq!(node.query::<String>(&["GET", &key]).unwrap(), "theirs");
    }
}

/// One server has a value of another program in the place of the lock. A break is kept on the other
/// two, and no connection is dropped, which other locks use.
#[tokio::test]
async fn a_break_beside_a_foreign_value_drops_no_connection() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    servers.nodes()[2].run(&["RPUSH", &line_key(&name), "theirs"]).unwrap();
    let client = ByHand::connect(&with(&servers.url_through(&proxies), SLOW), &name).await;
    let token = client.token(&client.writer()).await.expect("it is free");
    let before = proxies[2].seen().connections;
    let admin = client.store.admin().unwrap();
    let target = Target::Token(token);
    let evicted = admin.evict(&client.name, &target, Evict::Mark, "op", "stuck");
    assert_eq!(evicted.await.unwrap(), Evicted::Done);
    assert!(admin.request_release(&client.name, "op", "please").await.is_ok());
    // A connection that is dropped is made again after 50 ms.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(proxies[2].seen().connections, before);
}

/// A client with another `max-keep` is refused, and leaves its own on no server: the clients that
/// have the right one connect as before.
#[tokio::test]
async fn a_refused_client_leaves_its_max_keep_nowhere() {
    let mut servers = Redlock::start().unwrap();
    let url = servers.url() + "?max-keep=60s";
    keeper(&url, LONG).await;
    servers.node(1).restart_empty().unwrap();
    let other = lockkeeper::Keeper::from_url(&*(servers.url() + "?max-keep=2s&ttl=1s")).unwrap();
    let error = other.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    keeper(&url, LONG).await;
}

/// One server confirms the lock, one is dead, and one is silent. The error of the renewal names the
/// last two.
#[tokio::test]
async fn a_failed_renewal_names_no_server_that_has_confirmed_it() {
    let ((mut servers, proxies), name) = (behind_proxies(3), name());
    let guard = lock(&keeper(&servers.url_through(&proxies), TTL * 2).await, &name).await;
    until_holding(&servers, &name, 3).await;
    proxies[2].hold(Way::ToClient);
    servers.node(1).kill().unwrap();
    let error = within(TIME_LIMIT, async { guard.renew_once().await.unwrap_err() }).await;
    let says = |proxy: usize, words: &str| {
        error.to_string().contains(&format!("{}: {words}", proxies[proxy].address()))
    };
    assert!(says(1, "unreachable") && says(2, "no answer within"), "{error}");
    assert!(!says(0, ""), "{error}");
}

/// One server removes the lock, one is dead, and one is silent. The error of the release says so of
/// each.
#[tokio::test]
async fn a_failed_release_says_of_a_dead_server_that_it_is_dead() {
    let ((mut servers, proxies), name) = (behind_proxies(3), name());
    let client = ByHand::connect(&with(&servers.url_through(&proxies), SLOW), &name).await;
    let claim = client.writer();
    client.token(&claim).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    proxies[2].hold(Way::ToServer);
    servers.node(1).kill().unwrap();
    let error = client.store.withdraw(&claim.key, None).await.unwrap_err();
    let says = |proxy: usize, words: &str| {
        error.to_string().contains(&format!("{}: {words}", proxies[proxy].address()))
    };
    assert!(says(1, "unreachable") && says(2, "no answer within"), "{error}");
    assert!(!says(0, ""), "{error}");
}

/// Too few servers say who holds a lock, after all of them have named it. The list shows the lock
/// with the error, and is not empty.
#[tokio::test]
async fn a_list_hides_no_lock_that_too_few_servers_describe() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let url = with(&servers.url_through(&proxies), "timeout=1s");
    let client = ByHand::connect(&with(&url, SLOW), &name).await;
    client.token(&client.writer()).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    for proxy in &proxies[1..] {
        proxy.on_request(|request| if request.is("EVALSHA") { Act::Hold } else { Act::Pass });
    }
    let listed = client.store.admin().unwrap().lines("", None, 10).await.unwrap();
    let [(found, Err(error))] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((found, error.kind()), (&client.name, ErrorKind::Unavailable), "{error}");
}
