//! A try gets a free lock, and no other.

use lockkeeper_live::etcd;

use crate::contender::{Contender as _, Kind, holds, line};
use crate::lines::Lines;
use crate::pairs::name;
use crate::us::Us;

#[test]
fn what_others_hold_is_busy_for_us() {
    let etcd = etcd().unwrap();
    let us = Us::new(etcd);
    for kind in [Kind::Concurrency, Kind::Etcdctl, Kind::Jetcd, Kind::EtcdClient] {
        let (name, mut other) = (name(), kind.start(etcd));
        assert!(us.gets_at_once(&name));
        other.ask(&name);
        holds(etcd, &name, &mut *other);
        assert!(!us.gets_at_once(&name), "{kind:?} holds it");
        assert_eq!(line(etcd, &name).len(), 1);
        other.release();
        assert!(us.gets_at_once(&name));
    }
}

#[test]
fn what_we_hold_is_busy_for_others() {
    let (etcd, name) = (etcd().unwrap(), name());
    let (mut us, mut other) =
        (Us::new(etcd), Lines::program("bin/concurrency", &etcd.addresses()[0].to_string()));
    assert!(other.gets_at_once(&name));
    us.ask(&name);
    holds(etcd, &name, &mut us);
    assert!(!other.gets_at_once(&name));
    us.release();
    assert!(other.gets_at_once(&name));
}
