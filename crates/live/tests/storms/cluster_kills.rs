//! A Redis Cluster whose masters are killed. Redis replicates later than it answers, so the new
//! master may grant a held lock. The data behind a fence stay right all the same.

use std::time::{Duration, Instant};

use lockkeeper_live::{Cluster, Redis};
use lockkeeper_testing::Seeded;

use crate::play::{Round, Storm};
use crate::{fenced, sentinel};

const STORM: Storm = Storm {
    test: "cluster_kills::masters_are_killed_and_the_fence_holds",
    tasks: 16,
    // Some tasks hold their locks for longer than a failover takes.
    pause: Duration::from_millis(1500),
    ttl: Duration::from_secs(5),
    lingers: Duration::from_secs(30),
    at_most: Duration::MAX,
};

/// Between a failover and the next kill.
const CALM: Duration = Duration::from_secs(1);

/// The duration of a failover.
const FAILOVER: Duration = Duration::from_secs(4);

/// A master goes on alone for this long: its late grants are lost with it.
const ALONE: Duration = Duration::from_millis(300);

/// Longer than that takes on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A counter behind a fence loses no increment, even with two holders at once, and the tokens that
/// it has seen rise.
#[test]
fn masters_are_killed_and_the_fence_holds() {
    if STORM.is_played_here(fenced::dress) {
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    let data = Redis::start().unwrap();
    let (url, mut kills) = (cluster.url(), 0);
    let fault = |round: &mut Round<'_>, draw: &mut Seeded| {
        std::thread::sleep(CALM.min(round.remaining()));
        if round.remaining() > FAILOVER {
            kill_a_master(&mut cluster, draw);
            kills += 1;
        }
    };
    STORM.play(&url, &[fenced::data_url(&data)], fault, |_, folder, locks, seed| {
        sentinel::judge(&data, folder, locks, seed)
    });
    eprintln!("{kills} masters were killed");
}

/// The replica takes over, and the killed node comes back as its replica.
fn kill_a_master(cluster: &mut Cluster, draw: &mut Seeded) {
    let masters = cluster.masters().unwrap();
    let killed = masters[usize::try_from(draw.below(masters.len() as u64)).unwrap()];
    match draw.happens(500) {
        true => kill_with_its_latest(cluster, killed),
        false => cluster.node(killed).kill().unwrap(),
    }
    until(|| cluster.masters().is_ok_and(|now| now.len() == masters.len()));
    cluster.wait_until_settled().unwrap();
    cluster.node(killed).restart().unwrap();
    let follows = |node: &Redis| {
        let says = |field, wanted| node.info(field).is_ok_and(|said| said == wanted);
        says("role", "slave") && says("master_link_status", "up")
    };
    until(|| cluster.nodes().iter().filter(|node| follows(node)).count() == masters.len());
    cluster.wait_until_settled().unwrap();
}

/// The replica receives none of the last writes.
fn kill_with_its_latest(cluster: &mut Cluster, master: usize) {
    let port = cluster.nodes()[master].port().to_string();
    let replica = cluster
        .nodes()
        .iter()
        .position(|node| node.info("master_port").is_ok_and(|of| of == port))
        .unwrap();
    // The replica is stopped, so that it does not come back at once when its connection ends.
    cluster.node(replica).pause().unwrap();
    cluster.nodes()[master].run(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    std::thread::sleep(ALONE);
    cluster.node(master).kill().unwrap();
    cluster.node(replica).resume().unwrap();
}

fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < TIME_LIMIT, "the nodes do not come to rest");
        std::thread::sleep(Duration::from_millis(50));
    }
}
