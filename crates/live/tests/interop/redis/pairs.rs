//! Two kinds of clients on one lock.

use std::time::{Duration, Instant};

use lockkeeper_live::locks::name;

use super::client::Client;
use super::kind::{Kind, Servers};

/// For locks that no test lets expire.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// For locks that a test lets expire, or has renewed.
pub(super) const SHORT: Duration = Duration::from_secs(4);

/// How often each of four clients counts on one server. On three servers, foreign clients block
/// each other for long.
const TIMES: u32 = 25;
const TIMES_ON_SEVERAL: u32 = 5;

/// A test for each of the two beside the other.
macro_rules! pair {
    ($module:ident, $one:ident, $other:ident, $servers:ident) => {
        mod $module {
            use crate::redis::kind::{Servers, $one, $other};
            use crate::redis::pairs;

            #[test]
            fn what_one_holds_is_busy_for_the_other() {
                pairs::what_one_holds_is_busy_for_the_other($one, $other, Servers::$servers());
            }

            #[test]
            fn each_waits_for_the_other() {
                pairs::each_waits_for_the_other($one, $other, Servers::$servers());
            }

            #[test]
            fn a_counter_of_both_loses_nothing() {
                pairs::a_counter_of_both_loses_nothing($one, $other, Servers::$servers());
            }

            #[test]
            fn a_holder_that_dies_lets_the_other_in() {
                pairs::a_holder_that_dies_lets_the_other_in($one, $other, Servers::$servers());
            }

            #[test]
            fn a_lock_is_held_for_three_lives() {
                pairs::a_lock_is_held_for_three_lives($one, $other, Servers::$servers());
            }
        }
    };
}
pub(super) use pair;

// Clients of a simple key.
pair!(redis_py_and_us, REDIS_PY, US_PLAIN, one);
pair!(redislock_and_us, REDISLOCK, US_PLAIN, one);
pair!(redsync_and_us, REDSYNC, US_PLAIN, one);
pair!(node_redlock_and_us, NODE_REDLOCK, US_PLAIN, one);
pair!(rslock_and_us, RSLOCK, US_PLAIN, one);

// Two foreign clients beside each other, without lockkeeper.
pair!(redis_py_and_redislock, REDIS_PY, REDISLOCK, one);

pub(super) fn what_one_holds_is_busy_for_the_other(one: Kind, other: Kind, servers: Servers) {
    let (name, mut pair) = (name(), [one, other].map(|kind| Client::start(kind, servers, LONG)));
    for _ in 0..2 {
        let [holder, other] = &mut pair;
        assert!(other.gets_at_once(&name));
        holder.take(&name);
        assert!(!other.takes_at_once(&name));
        holder.release();
        assert!(other.gets_at_once(&name));
        pair.reverse();
    }
}

pub(super) fn each_waits_for_the_other(one: Kind, other: Kind, servers: Servers) {
    let name = name();
    let mut pair = [one, other].map(|kind| Client::start(kind, servers, LONG));
    for client in &mut pair {
        assert!(client.gets_at_once(&name), "it is free, and the server learns the scripts");
    }
    pair[0].take(&name);
    for _ in 0..4 {
        let [holder, waiter] = &mut pair;
        waiter.wait_for(&name);
        assert!(!waiter.has_answered());
        holder.release();
        waiter.held();
        pair.reverse();
    }
    pair[0].release();
    assert!(pair[1].gets_at_once(&name));
}

pub(super) fn a_counter_of_both_loses_nothing(one: Kind, other: Kind, servers: Servers) {
    let (name, kinds) = (name(), [one, other, one, other]);
    let counter = format!("count-of-{name}");
    let times = if servers.all().len() == 1 { TIMES } else { TIMES_ON_SEVERAL };
    servers.first().run(&["SET", &counter, "0"]).unwrap();
    let mut clients = kinds.map(|kind| Client::start(kind, servers, LONG));
    clients.iter_mut().for_each(|client| client.count(&name, &counter, times));
    clients.iter_mut().for_each(|client| client.counted());
    let count: u32 = servers.first().query(&["GET", &counter]).unwrap();
    assert_eq!(count, 4 * times);
}

pub(super) fn a_holder_that_dies_lets_the_other_in(one: Kind, other: Kind, servers: Servers) {
    for [dies, waits] in [[one, other], [other, one]] {
        let name = name();
        let mut holder = Client::start(dies, servers, SHORT);
        let mut waiter = Client::start(waits, servers, SHORT);
        assert!(waiter.gets_at_once(&name));
        holder.take(&name);
        waiter.wait_for(&name);
        holder.die();
        waiter.held();
        waiter.release();
    }
}

/// What renews by itself needs nothing; the others are asked to extend what they hold.
pub(super) fn a_lock_is_held_for_three_lives(one: Kind, other: Kind, servers: Servers) {
    let mut held = [[one, other], [other, one]].map(|kinds| {
        let [holder, tries] = kinds.map(|kind| Client::start(kind, servers, SHORT));
        (name(), kinds[0], holder, tries)
    });
    for (name, _, holder, _) in &mut held {
        holder.take(name);
    }
    let start = Instant::now();
    while start.elapsed() < 3 * SHORT {
        // The time itself is what the test waits for.
        std::thread::sleep(SHORT / 5);
        for (name, kind, holder, tries) in &mut held {
            if !kind.renews_by_itself() {
                holder.extend();
            }
            assert!(!tries.takes_at_once(name), "{kind:?} after {:?}", start.elapsed());
        }
    }
    for (name, _, holder, tries) in &mut held {
        holder.release();
        assert!(tries.gets_at_once(name));
    }
}
