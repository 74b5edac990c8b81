//! A try gets a free lock, and no other.

use lockkeeper_live::etcd;

use super::kind::{Kind, TTL, holds, line};
use super::pairs::name;
use super::us::Us;
use crate::contender::{Contender as _, Tries as _};
use crate::lines::Lines;

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
    let arguments = [etcd.addresses()[0].to_string(), TTL.to_string()];
    let (mut us, mut other) =
        (Us::new(etcd), Lines::program("bin/concurrency", &arguments.each_ref().map(|one| &**one)));
    assert!(other.gets_at_once(&name));
    us.ask(&name);
    holds(etcd, &name, &mut us);
    assert!(!other.gets_at_once(&name));
    us.release();
    assert!(other.gets_at_once(&name));
}
