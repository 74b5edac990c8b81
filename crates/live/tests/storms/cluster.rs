//! A Redis Cluster whose slots move all the time, and whose masters hand over to their replicas.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lockkeeper::LockName;
use lockkeeper_live::{Cluster, Proxy, Redis, Way};
use lockkeeper_testing::Seeded;

use crate::play::{Round, Storm, plain};

const STORM: Storm = Storm {
    test: "cluster::slots_move_and_masters_give_way",
    tasks: 32,
    pause: Duration::from_millis(3),
    ttl: Duration::from_secs(10),
    lingers: Duration::from_secs(30),
    at_most: Duration::MAX,
};

/// 20 moves of slots in a second.
const PACE: Duration = Duration::from_millis(50);

/// At the end of a round no slot moves for so long.
const PEACE: Duration = Duration::from_secs(1);

/// Each way.
const LATENCY: Duration = Duration::from_millis(1);

/// Many times the duration of an agreement between nodes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How often a master gives way.
const FAILOVER: Duration = Duration::from_secs(5);

/// No lock has two holders, tokens rise, and every waiter gets its lock.
#[test]
fn slots_move_and_masters_give_way() {
    if STORM.is_played_here(plain) {
        return;
    }
    let cluster = Cluster::builder().node_timeout(Duration::from_secs(30)).start().unwrap();
    for node in cluster.nodes() {
        // If the server knows this parameter: each master keeps its replica.
        let _ = node.set("cluster-allow-replica-migration", "no");
    }
    let proxies = far_away(&cluster);
    let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let (url, mut mover) =
        (format!("redis+cluster://{}", addresses.join(",")), Mover::new(&cluster));
    STORM.play(&url, &[], |round, draw| mover.fault(round, draw), Storm::nobody_beside_another);
    assert!(mover.moves > 10, "only {} slots moved", mover.moves);
    eprintln!(
        "{} slots moved, {} not, {} masters gave way",
        mover.moves, mover.failures, mover.failovers
    );
}

/// Puts a proxy before each node: the node's own messages cross with requests.
fn far_away(cluster: &Cluster) -> Vec<Proxy> {
    let proxy = |node: &Redis| {
        let proxy = Proxy::raw(node.address()).unwrap();
        proxy.delay(Way::Both, LATENCY);
        node.set("cluster-announce-port", &proxy.port().to_string()).unwrap();
        proxy
    };
    cluster.nodes().iter().map(proxy).collect()
}

/// Moves the slots of the round's locks.
struct Mover<'a> {
    cluster: &'a Cluster,
    masters: Vec<usize>,
    /// The nodes learn of a move later than this.
    owners: HashMap<u16, usize>,
    next_move: Instant,
    next_failover: Instant,
    moves: usize,
    failures: usize,
    failovers: usize,
}

impl<'a> Mover<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let (now, masters) = (Instant::now(), cluster.masters().unwrap());
        let next_failover = now + FAILOVER;
        Self {
            cluster,
            masters,
            owners: HashMap::new(),
            next_move: now,
            next_failover,
            moves: 0,
            failures: 0,
            failovers: 0,
        }
    }

    fn fault(&mut self, round: &Round<'_>, draw: &mut Seeded) {
        if round.remaining() < PEACE {
            // Nodes that disagree at the end would go on refusing requests for minutes.
            self.settle();
            return std::thread::sleep(round.remaining());
        }
        std::thread::sleep(self.next_move.saturating_duration_since(Instant::now()));
        self.next_move += PACE;
        let names = round.names();
        let slot = self.slot_of(&names[below(draw, names.len())]);
        let from = *self.owners.entry(slot).or_insert_with(|| self.cluster.owner(slot).unwrap());
        if Instant::now() > self.next_failover {
            self.give_way(from);
        } else {
            let others: Vec<_> =
                self.masters.iter().copied().filter(|node| *node != from).collect();
            let to = others[below(draw, others.len())];
            match self.cluster.move_slot_unsettled(slot, from, to) {
                Ok(()) => {
                    self.owners.insert(slot, to);
                    self.moves += 1;
                }
                Err(error) => self.misled(slot, &error),
            }
        }
    }

    /// After quick moves a node may be wrong about its own slot: no slot moves before the nodes
    /// agree.
    fn misled(&mut self, slot: u16, error: &anyhow::Error) {
        self.failures += 1;
        eprintln!("not moved: {error:#}");
        for node in self.cluster.nodes() {
            // Whichever had begun.
            let _ = node.run(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
        }
        self.settle();
        self.owners.clear();
    }

    /// The slot of the keys of a lock.
    fn slot_of(&self, lock: &str) -> u16 {
        let name: LockName = lock.parse().unwrap();
        self.cluster.slot_of(&format!("lk:{{{}}}", name.encoded())).unwrap()
    }

    fn give_way(&mut self, master: usize) {
        self.settle();
        match self.cluster.fail_over(master) {
            Ok(_) => self.failovers += 1,
            Err(error) => {
                // After many conflicts of epochs a master may be left without a replica.
                self.failures += 1;
                eprintln!("not replaced: {error:#}");
            }
        }
        self.masters = self.cluster.masters().unwrap();
        self.owners.clear();
        (self.next_move, self.next_failover) = (Instant::now(), Instant::now() + FAILOVER);
    }

    /// After quick moves two masters may claim one epoch, and the other nodes follow the wrong one.
    /// A replica with such a view would give up slots of its master.
    fn settle(&self) {
        let began = Instant::now();
        for node in std::iter::repeat(&self.masters).flatten() {
            if self.cluster.is_settled().unwrap() {
                return;
            }
            assert!(began.elapsed() < TIME_LIMIT, "the nodes do not agree whose the slots are");
            self.report_to_owners();
            self.cluster.nodes()[*node].run(&["CLUSTER", "BUMPEPOCH"]).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Announces the owners of the slots again. A node that has forgotten its slots claims none by
    /// itself.
    fn report_to_owners(&self) {
        for (slot, owner) in &self.owners {
            let id: String = self.cluster.nodes()[*owner].query(&["CLUSTER", "MYID"]).unwrap();
            for node in &self.masters {
                // The node that still has keys of the slot is its owner.
                let _ = self.cluster.nodes()[*node].run(&[
                    "CLUSTER",
                    "SETSLOT",
                    &slot.to_string(),
                    "NODE",
                    &id,
                ]);
            }
        }
    }
}

fn below(draw: &mut Seeded, end: usize) -> usize {
    usize::try_from(draw.below(end as u64)).unwrap()
}
