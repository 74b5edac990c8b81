//! Three servers of a Redlock, which are killed and started again with their data, stand still, are
//! slow, and are cut off: one at a time, or two. Clients are killed and stand still too.

use std::time::Duration;

use lockkeeper_live::{Proxy, Redis, Redlock, Way, with};
use lockkeeper_testing::Seeded;

use crate::play::{Round, Storm, plain};

const STORM: Storm = Storm {
    test: "redlock::servers_and_clients_fail_one_by_one_and_two_at_a_time",
    tasks: 8,
    // Some tasks hold their locks for longer than a fault lasts.
    pause: Duration::from_millis(1500),
    ttl: Duration::from_secs(2),
    lingers: Duration::from_secs(20),
    at_most: Duration::MAX,
};

/// A restarted server does not count for longer than any lock lasts.
const QUERY: &str = "max-keep=3s&node-timeout=200ms&timeout=1s";

/// The longest fault, and the longest pause between two faults: in ms.
const FAULT: u64 = 1500;
const CALM: u64 = 800;

/// How much longer each message of a slow server takes.
const SLOW: Duration = Duration::from_millis(100);

/// The ways in which a server fails.
const WAYS: u64 = 6;

/// No lock has two holders, tokens rise, and every waiter gets its lock.
#[test]
fn servers_and_clients_fail_one_by_one_and_two_at_a_time() {
    if STORM.is_played_here(plain) {
        return;
    }
    let mut servers = Servers::start();
    let url = with(&servers.redlock.url_through(&servers.proxies), QUERY);
    let fault = |round: &mut Round<'_>, draw: &mut Seeded| {
        if round.remaining() < Duration::from_millis(FAULT + CALM) {
            return std::thread::sleep(round.remaining());
        }
        match draw.below(5) {
            0 => round.kill_one(draw),
            1 => round.stop_one(draw, 2 * STORM.ttl),
            _ => servers.fail(draw),
        }
        std::thread::sleep(Duration::from_millis(draw.below(CALM)));
    };
    STORM.play(&url, &[], fault, Storm::nobody_beside_another);
    eprintln!("{} servers failed, {} of them beside another", servers.failed, servers.beside);
}

/// The servers, each behind a proxy.
struct Servers {
    redlock: Redlock,
    proxies: Vec<Proxy>,
    failed: u32,
    beside: u32,
}

impl Servers {
    fn start() -> Self {
        let redlock = Redlock::of(3, &Redis::builder().persistent()).unwrap();
        let proxy = |node: &Redis| Proxy::resp(node.address()).unwrap();
        let proxies = redlock.nodes().iter().map(proxy).collect();
        Self { redlock, proxies, failed: 0, beside: 0 }
    }

    /// One server fails for a while, or two do, each in its way.
    fn fail(&mut self, draw: &mut Seeded) {
        let first = usize::try_from(draw.below(3)).unwrap();
        let mut failing = vec![(first, draw.below(WAYS))];
        if draw.happens(300) {
            failing.push(((first + 1) % 3, draw.below(WAYS)));
            self.beside += 1;
        }
        for (node, way) in &failing {
            self.begin(*node, *way);
            self.failed += 1;
        }
        std::thread::sleep(Duration::from_millis(200 + draw.below(FAULT)));
        for (node, way) in &failing {
            self.end(*node, *way);
        }
    }

    fn begin(&mut self, node: usize, way: u64) {
        match way {
            0 => self.redlock.node(node).kill().unwrap(),
            1 => self.redlock.node(node).pause().unwrap(),
            2 => self.proxies[node].hold(Way::ToServer),
            3 => self.proxies[node].hold(Way::ToClient),
            4 => self.proxies[node].delay(Way::Both, SLOW),
            _ => {
                self.proxies[node].refuse();
                self.proxies[node].cut();
            }
        }
    }

    fn end(&mut self, node: usize, way: u64) {
        match way {
            0 => self.redlock.node(node).restart().unwrap(),
            1 => self.redlock.node(node).resume().unwrap(),
            _ => {
                self.proxies[node].heal();
                self.proxies[node].accept().unwrap();
            }
        }
    }
}
