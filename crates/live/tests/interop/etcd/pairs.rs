//! Two kinds of clients on one lock.

use std::sync::atomic::{AtomicU32, Ordering};

use lockkeeper_live::{Etcd, etcd};

use super::kind::{Kind, holds, line, until_in_line};
use crate::contender::Contender;

/// A test for each of the two beside the other.
macro_rules! pair {
    ($module:ident, $one:ident, $other:ident) => {
        mod $module {
            use super::Kind::{$one, $other};

            #[test]
            fn each_waits_for_the_other() {
                super::each_waits_for_the_other($one, $other);
            }

            #[test]
            fn a_counter_of_both_loses_nothing() {
                super::a_counter_of_both_loses_nothing($one, $other);
            }

            #[test]
            fn who_comes_first_is_served_first() {
                super::who_comes_first_is_served_first($one, $other);
            }

            #[test]
            fn a_holder_that_dies_lets_the_other_in() {
                super::a_holder_that_dies_lets_the_other_in($one, $other);
            }

            #[test]
            fn a_waiter_that_dies_is_passed_over() {
                super::a_waiter_that_dies_is_passed_over($one, $other);
            }
        }
    };
}

pair!(concurrency_and_us, Concurrency, Lockkeeper);
pair!(etcdctl_and_us, Etcdctl, Lockkeeper);
pair!(jetcd_and_us, Jetcd, Lockkeeper);
pair!(etcd_client_and_us, EtcdClient, Lockkeeper);
// The first of the two dies.
pair!(us_and_concurrency, Lockkeeper, Concurrency);

// Two foreign clients beside each other, without lockkeeper.
pair!(concurrency_and_etcd_client, Concurrency, EtcdClient);
pair!(etcdctl_and_jetcd, Etcdctl, Jetcd);
pair!(jetcd_and_concurrency, Jetcd, Concurrency);

/// A name that no other test uses.
pub(crate) fn name() -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("lock-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// Lets the waiter wait behind this number of others.
fn queue(etcd: &Etcd, name: &str, waiter: &mut dyn Contender, ahead: usize) {
    waiter.ask(name);
    until_in_line(etcd, name, ahead + 1);
    assert!(!waiter.has_answered(), "{ahead} are ahead of it in {name}");
}

fn each_waits_for_the_other(one: Kind, other: Kind) {
    let (etcd, name) = (etcd().unwrap(), name());
    let (mut one, mut other) = (one.start(etcd), other.start(etcd));
    one.ask(&name);
    holds(etcd, &name, &mut *one);
    for _ in 0..2 {
        queue(etcd, &name, &mut *other, 1);
        one.release();
        holds(etcd, &name, &mut *other);
        std::mem::swap(&mut one, &mut other);
    }
    one.release();
    assert!(line(etcd, &name).is_empty());
}

fn a_counter_of_both_loses_nothing(one: Kind, other: Kind) {
    let (etcd, name) = (etcd().unwrap(), name());
    let counter = format!("count-of-{name}");
    etcd.control().put(&counter, "0").unwrap();
    let kinds = [one, other, one, other];
    let mut contenders = kinds.map(|kind| kind.start(etcd));
    for (kind, contender) in kinds.iter().zip(&mut contenders) {
        contender.count(&name, &counter, kind.times());
    }
    contenders.iter_mut().for_each(|contender| contender.counted());
    let count = String::from_utf8(etcd.control().get(&counter).unwrap().unwrap().value).unwrap();
    assert_eq!(count, kinds.map(Kind::times).iter().sum::<u32>().to_string());
}

fn who_comes_first_is_served_first(one: Kind, other: Kind) {
    let (etcd, name) = (etcd().unwrap(), name());
    let mut contenders = [one, other, one, other, other].map(|kind| kind.start(etcd));
    contenders[0].ask(&name);
    until_in_line(etcd, &name, 1);
    for (ahead, contender) in contenders.iter_mut().enumerate().skip(1) {
        queue(etcd, &name, &mut **contender, ahead);
    }
    for first in 0..contenders.len() {
        holds(etcd, &name, &mut *contenders[first]);
        assert!(contenders[first + 1..].iter_mut().all(|later| !later.has_answered()));
        contenders[first].release();
    }
}

fn a_holder_that_dies_lets_the_other_in(one: Kind, other: Kind) {
    let (etcd, name) = (etcd().unwrap(), name());
    let (mut holder, mut waiter) = (one.start(etcd), other.start(etcd));
    holder.ask(&name);
    let key = holds(etcd, &name, &mut *holder);
    queue(etcd, &name, &mut *waiter, 1);
    holder.die();
    holds(etcd, &name, &mut *waiter);
    assert_eq!(etcd.control().get(key).unwrap(), None);
}

fn a_waiter_that_dies_is_passed_over(one: Kind, other: Kind) {
    let (etcd, name) = (etcd().unwrap(), name());
    let (mut holder, mut dead, mut waiter) =
        (other.start(etcd), one.start(etcd), other.start(etcd));
    holder.ask(&name);
    holds(etcd, &name, &mut *holder);
    queue(etcd, &name, &mut *dead, 1);
    queue(etcd, &name, &mut *waiter, 2);
    dead.die();
    until_in_line(etcd, &name, 2);
    assert!(!waiter.has_answered());
    holder.release();
    holds(etcd, &name, &mut *waiter);
}
