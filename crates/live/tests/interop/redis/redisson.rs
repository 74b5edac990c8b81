//! Redisson's locks.

use std::time::{Duration, Instant};

use lockkeeper_live::locks::name;

use super::client::Client;
use super::kind::{
    Kind, REDISSON, REDISSON_FAIR, REDISSON_FAIR_SHORT, REDISSON_FENCED, REDISSON_READ,
    REDISSON_TWO_PERMITS, REDISSON_WRITE, Servers, US_FAIR, US_FENCED, US_READ, US_REDISSON,
    US_TWO_PERMITS, US_WRITE,
};
use super::pairs::{LONG, SHORT, pair, what_one_holds_is_busy_for_the_other};

pair!(redisson_and_us, REDISSON, US_REDISSON, one);
pair!(redisson_fair_and_us, REDISSON_FAIR, US_FAIR, one);
pair!(redisson_fenced_and_us, REDISSON_FENCED, US_FENCED, one);
pair!(redisson_write_and_us, REDISSON_WRITE, US_WRITE, one);
pair!(redisson_semaphore_and_us, REDISSON_SEMAPHORE, US_SEMAPHORE, one);

/// They share no queue: `redisson` is the layout of the `RLock`.
#[test]
fn a_fair_lock_of_theirs_and_a_lock_of_ours_exclude_each_other() {
    what_one_holds_is_busy_for_the_other(REDISSON_FAIR, US_REDISSON, Servers::one());
}

#[test]
fn a_mixed_queue_keeps_its_order() {
    let name = name();
    let mut all = [US_FAIR, REDISSON_FAIR, US_FAIR, REDISSON_FAIR, US_FAIR, REDISSON_FAIR]
        .map(|kind| Client::start(kind, Servers::one(), LONG));
    all.iter_mut().for_each(|client| assert!(client.gets_at_once(&name)));
    let [holder, waiters @ ..] = &mut all;
    holder.take(&name);
    waiters.iter_mut().for_each(|waiter| waiter.wait_for(&name));
    holder.release();
    for at in 0..waiters.len() {
        waiters[at].held();
        assert!(waiters[at + 1..].iter_mut().all(|later| !later.has_answered()), "after {at}");
        waiters[at].release();
    }
}

/// The waiter behind it gets the lock: soon behind one of lockkeeper, and when its time is over
/// behind one of Redisson.
#[test]
fn a_waiter_that_dies_lets_the_waiter_behind_it_in() {
    for [dies, waits] in [[US_FAIR, REDISSON_FAIR], [REDISSON_FAIR_SHORT, US_FAIR]] {
        let name = name();
        let mut holder = Client::start(waits, Servers::one(), SHORT);
        let mut dead = Client::start(dies, Servers::one(), SHORT);
        let mut waiter = Client::start(waits, Servers::one(), SHORT);
        for client in [&mut holder, &mut dead, &mut waiter] {
            assert!(client.gets_at_once(&name));
        }
        holder.take(&name);
        dead.wait_for(&name);
        waiter.wait_for(&name);
        dead.die();
        let start = Instant::now();
        holder.release();
        waiter.held();
        // The time of the waiter of Redisson begins when the holder would have ended.
        assert!(start.elapsed() < 5 * SHORT, "{dies:?}: {:?}", start.elapsed());
        waiter.release();
    }
}

/// A waiter of Redisson looks again after the ttl, which is [`LONG`], and a waiter of lockkeeper
/// after 5 s: without messages, the time is over many times.
const HAND_OFFS: u32 = 10;
const IN: Duration = Duration::from_secs(15);

#[test]
fn both_hand_on_by_messages() {
    for [one, other] in [
        [REDISSON, US_REDISSON],
        [REDISSON_FENCED, US_FENCED],
        [REDISSON_FAIR, US_FAIR],
        [REDISSON_WRITE, US_WRITE],
        [REDISSON_WRITE, US_READ],
        [REDISSON_READ, US_WRITE],
    ] {
        let took = hand_on(one, other);
        assert!(took < IN, "{one:?}, {other:?}: {took:?}");
    }
}

/// How long the hand-offs take.
fn hand_on(one: Kind, other: Kind) -> Duration {
    let name = name();
    let mut pair = [one, other].map(|kind| Client::start(kind, Servers::one(), LONG));
    pair.iter_mut().for_each(|client| assert!(client.gets_at_once(&name)));
    pair[0].take(&name);
    let start = Instant::now();
    for _ in 0..HAND_OFFS {
        let [holder, waiter] = &mut pair;
        waiter.wait_for(&name);
        holder.release();
        waiter.held();
        pair.reverse();
    }
    let took = start.elapsed();
    pair[0].release();
    took
}

#[test]
fn the_tokens_of_both_sides_rise() {
    let name = name();
    let kinds = [REDISSON_FENCED, US_FENCED];
    let mut pair = kinds.map(|kind| Client::start(kind, Servers::one(), LONG));
    let mut last = 0;
    for round in 0..3 {
        for client in &mut pair {
            let said = client.take(&name);
            let token: u64 = said.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(token > last, "{token} after {last} in round {round}");
            last = token;
            client.release();
        }
    }
}

#[test]
fn readers_of_both_sides_hold_together_and_writers_apart() {
    let name = name();
    let kinds = [REDISSON_READ, US_READ, REDISSON_WRITE, US_WRITE];
    let [mut their_reader, mut our_reader, mut their_writer, mut our_writer] =
        kinds.map(|kind| Client::start(kind, Servers::one(), LONG));
    for readers_leave in [[0, 1], [1, 0]] {
        let mut readers = [&mut their_reader, &mut our_reader];
        readers.iter_mut().for_each(|reader| assert!(reader.takes_at_once(&name)));
        assert!(!their_writer.takes_at_once(&name) && !our_writer.takes_at_once(&name));
        let [first, last] = readers_leave;
        readers[first].release();
        assert!(!their_writer.takes_at_once(&name) && !our_writer.takes_at_once(&name));
        readers[last].release();
        for writers in [[0, 1], [1, 0]] {
            let both = [&mut their_writer, &mut our_writer];
            assert!(both[writers[0]].takes_at_once(&name));
            assert!(!both[writers[1]].takes_at_once(&name));
            assert!(!readers[0].takes_at_once(&name) && !readers[1].takes_at_once(&name));
            both[writers[0]].release();
        }
    }
}

/// The dead reader has no say after its life, and ends no hold of the other one.
#[test]
fn a_reader_that_dies_leaves_the_reader_of_the_other_side() {
    for kinds in [[REDISSON_READ, US_READ, REDISSON_WRITE], [US_READ, REDISSON_READ, US_WRITE]] {
        let name = name();
        let [mut dies, mut lives, mut writer] =
            kinds.map(|kind| Client::start(kind, Servers::one(), SHORT));
        assert!(writer.gets_at_once(&name));
        dies.take(&name);
        lives.take(&name);
        dies.die();
        let start = Instant::now();
        while start.elapsed() < 2 * SHORT {
            // The time itself is what the test waits for.
            std::thread::sleep(SHORT / 5);
            assert!(!writer.takes_at_once(&name), "after {:?}", start.elapsed());
        }
        lives.release();
        assert!(writer.takes_at_once(&name));
        writer.release();
    }
}

#[test]
fn the_permits_of_a_semaphore_are_for_both_sides() {
    let name = name();
    let kinds = [REDISSON_TWO_PERMITS, US_TWO_PERMITS, REDISSON_TWO_PERMITS, US_TWO_PERMITS];
    let mut clients = kinds.map(|kind| Client::start(kind, Servers::one(), LONG));
    for [theirs, ours, next] in [[0, 1, 2], [2, 3, 1]] {
        assert!(clients[theirs].takes_at_once(&name) && clients[ours].takes_at_once(&name));
        assert!(!clients[next].takes_at_once(&name));
        clients[ours].release();
        assert!(clients[next].takes_at_once(&name));
        for client in [theirs, next] {
            clients[client].release();
        }
    }
}
