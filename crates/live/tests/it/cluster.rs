//! A cluster redistributes its slots.

use std::time::Instant;

use lockkeeper_live::locks::LONG;
use lockkeeper_live::{Cluster, Redis, cluster};

#[test]
fn all_tests_of_a_process_share_one() {
    let start = Instant::now();
    let cluster = cluster().unwrap();
    eprintln!("a cluster takes {:?}", start.elapsed());
    let owners: Vec<_> =
        [0, 5460, 5461, 10921, 10922, 16383].map(|slot| cluster.owner(slot).unwrap()).into();
    assert_eq!(owners, [0, 0, 1, 1, 2, 2]);
    for (index, node) in cluster.nodes().iter().enumerate() {
        assert_eq!(node.info("role").unwrap(), if index < 3 { "master" } else { "slave" });
    }
    let owner = &cluster.nodes()[cluster.owner(cluster.slot_of("{n}a").unwrap()).unwrap()];
    owner.run(&["SET", "{n}a", "1"]).unwrap();
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let slot = cluster.slot_of("n").unwrap();
    let (from, to) = (cluster.owner(slot).unwrap(), (cluster.owner(slot).unwrap() + 1) % 3);
    let nodes = cluster.nodes();
    nodes[from].run(&["SET", "n", "1"]).unwrap();
    cluster.begin_move(slot, from, to).unwrap();
    assert_eq!(nodes[from].query::<u32>(&["GET", "n"]).unwrap(), 1);
    let absent = nodes[from].run(&["GET", "{n}absent"]).unwrap_err();
    assert!(format!("{absent:?}").contains("Ask:"), "{absent:?}");
    cluster.move_keys(slot, from, to).unwrap();
    cluster.end_move(slot, from, to).unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), to);
    assert_eq!(nodes[to].query::<u32>(&["GET", "n"]).unwrap(), 1);
    let moved = nodes[from].run(&["GET", "n"]).unwrap_err();
    assert!(format!("{moved:?}").contains("Moved:"), "{moved:?}");
    cluster.move_slot(slot, from).unwrap();
    assert_eq!(nodes[from].query::<u32>(&["GET", "n"]).unwrap(), 1);
}

#[test]
fn a_replica_follows_a_master_that_gives_way_or_is_killed() {
    let mut cluster =
        Cluster::builder().node(Redis::builder().password("a-password")).start().unwrap();
    assert_eq!(cluster.fail_over(0).unwrap(), 3);
    assert_eq!(cluster.owner(0).unwrap(), 3);
    cluster.node(3).kill().unwrap();
    let start = Instant::now();
    assert_eq!(cluster.wait_for_other_owner(0, 3).unwrap(), 0);
    eprintln!("a failover takes {:?}", start.elapsed());
    cluster.wait_until_settled().unwrap();
    cluster.node(3).restart().unwrap();
    cluster.wait_until_settled().unwrap();
    assert_eq!(cluster.owner(0).unwrap(), 0);
}
