//! Three members of etcd: the leader is killed, stopped and cut off. In between etcd is compacted
//! and its members are defragmented.

use std::time::{Duration, Instant};

use lockkeeper_live::Etcd;
use lockkeeper_testing::Seeded;

use crate::play::{Round, Storm, plain};

const STORM: Storm = Storm {
    test: "etcd::leaders_fail_and_members_are_compacted",
    tasks: 6,
    pause: Duration::from_millis(3),
    ttl: Duration::from_secs(4),
    lingers: Duration::from_secs(30),
    at_most: Duration::MAX,
};

/// No lock has two holders, tokens rise, and every waiter gets its lock.
#[test]
fn leaders_fail_and_members_are_compacted() {
    if STORM.is_played_here(plain) {
        return;
    }
    let mut etcd = Etcd::builder().members(3).start().unwrap();
    let (url, mut faults) = (etcd.url() + "?timeout=1s", 0);
    let fault = |round: &mut Round<'_>, draw: &mut Seeded| {
        let until = Instant::now() + Duration::from_millis(500 + draw.below(1500));
        maintain(&etcd, draw, until);
        if round.remaining() > Duration::from_secs(2) {
            fail_leader(&mut etcd, draw);
            faults += 1;
        }
    };
    STORM.play(&url, &[], fault, Storm::nobody_beside_another);
    eprintln!("{faults} leaders failed");
}

/// Old revisions are compacted, and the members release their space, one after the other.
fn maintain(etcd: &Etcd, draw: &mut Seeded, until: Instant) {
    let mut members = (0..3).cycle();
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(draw.below(300)));
        // Without a leader, neither is done.
        let _ = etcd.control().compact();
        let _ = etcd.member(members.next().unwrap()).defragment();
    }
}

/// In one of three ways, for a while.
fn fail_leader(etcd: &mut Etcd, draw: &mut Seeded) {
    let (leader, how) = (etcd.leader().unwrap(), draw.below(3));
    match how {
        0 => etcd.kill(leader).unwrap(),
        1 => etcd.pause(leader).unwrap(),
        _ => etcd.isolate(leader).unwrap(),
    }
    etcd.wait_for_other_leader(leader).unwrap();
    std::thread::sleep(Duration::from_millis(draw.below(2000)));
    match how {
        0 => etcd.restart(leader).unwrap(),
        1 => etcd.resume(leader).unwrap(),
        _ => etcd.heal(leader),
    }
}
