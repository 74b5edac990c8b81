//! Settings and data of others beside the locks, and what errors say of each server.

use std::time::Duration;

use lockkeeper_live::{Redlock, Way, with};

use crate::support::{
    ByHand, LONG, SLOW, TIME_LIMIT, behind_proxies, keeper, line_key, lock, name, until_holding,
    waiter, within,
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
