//! One node of a Cluster is silent, or there are many slots: what the others hold is renewed.

use std::time::Duration;

use lockkeeper::Guard;
use lockkeeper_live::Cluster;

use super::keeper;

const TTL: Duration = Duration::from_secs(12);

/// Each lock counts only with a replica, so each renewal is two round trips. One node does not answer any more: the locks
/// of the others live on. Whoever waits for the silent one does so for longer than a lock lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_min_replicas_a_silent_node_costs_no_lock_of_the_others() {
    let mut cluster = Cluster::builder().node_timeout(20 * TTL).start().unwrap();
    let careful = keeper(&format!("{}?min-replicas=1&timeout=15s", cluster.url()), TTL).await;
    let owner = |name: &str| cluster.owner(cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()).unwrap();
    let names: Vec<_> = (0..40).map(|number| format!("name-{number}")).collect();
    // Slots are looked at in their order, those of the first node before all others.
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
