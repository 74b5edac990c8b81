//! One node of a Cluster is silent, or there are many slots: the locks of the other nodes are
//! renewed.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::Guard;
use lockkeeper_live::Cluster;

use super::keeper;
use crate::support::until_waiting;

const TTL: Duration = Duration::from_secs(12);

/// Each lock counts only with a replica, so each renewal takes two round trips. One node does not
/// answer any more: the locks of the other nodes live on. A wait for the silent node takes longer
/// than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_min_replicas_a_silent_node_costs_no_lock_of_the_others() {
    let mut cluster = Cluster::builder().node_timeout(20 * TTL).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=15s", cluster.url()), TTL).await;
    let owner =
        |name: &str| cluster.owner(cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()).unwrap();
    let names: Vec<_> = (0..40).map(|number| format!("name-{number}")).collect();
    // Slots are handled in their order, with the slots of the first node before all others.
    let (silent, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| owner(name) == 0);
    let mut guards: Vec<Guard> = Vec::new();
    for name in others {
        guards.push(careful.mutex(name.as_str()).unwrap().lock().await.unwrap());
    }
    let _of_the_silent = careful.mutex(silent[0].as_str()).unwrap().lock().await.unwrap();
    cluster.node(0).pause().unwrap();
    tokio::time::sleep(TTL + Duration::from_secs(3)).await;
    for guard in &guards {
        guard.check().unwrap_or_else(|error| panic!("{}: {error}", guard.name()));
    }
    cluster.node(0).resume().unwrap();
}

/// The lease of a waiter lasts for five seconds, whatever the ttl of a holder: an answer that the
/// silent node delays until then is too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_silent_node_costs_no_place_in_a_line_of_another_node() {
    let mut cluster = Cluster::builder().node_timeout(20 * TTL).start().unwrap();
    let connect = async || keeper(&format!("{}?timeout=15s", cluster.url()), 3 * TTL).await;
    let (holder, waiter, next) = (connect().await, connect().await, connect().await);
    let owner =
        |name: &str| cluster.owner(cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()).unwrap();
    let name = |silent: bool| {
        (0..).map(|n| format!("n/{n}")).find(|name| (owner(name) == 0) == silent).unwrap()
    };
    let (silent, line) = (name(true), name(false));
    let held = holder.mutex(line.as_str()).unwrap().lock().await.unwrap();
    let _of_the_silent = waiter.mutex(silent.as_str()).unwrap().lock().await.unwrap();
    let wait = |keeper: &lockkeeper::Keeper| {
        tokio::spawn(keeper.mutex(line.as_str()).unwrap().lock().into_future())
    };
    let first = wait(&waiter);
    until_waiting(&holder, &line, 1).await;
    let second = wait(&next);
    until_waiting(&holder, &line, 2).await;
    cluster.node(0).pause().unwrap();
    tokio::time::sleep(TTL).await;
    held.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    assert!(!second.is_finished(), "the first in line has lost its place");
    tokio::time::sleep(TTL).await;
    guard.check().unwrap();
    cluster.node(0).resume().unwrap();
    guard.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
}
