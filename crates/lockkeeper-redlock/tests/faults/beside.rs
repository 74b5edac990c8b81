//! Settings and data of others beside the locks, and what errors say of each server.

use std::time::Duration;

use lockkeeper_live::Redlock;

use crate::support::{
    LONG, TIME_LIMIT, keeper, line_key, lock, name, until_holding, waiter, within,
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
