//! The kinds of contenders in etcd, and what etcd says of their line.

use std::time::Duration;

use lockkeeper_live::{Entry, Etcd};

use super::etcdctl::Etcdctl;
use super::us::Us;
use crate::contender::Contender;
use crate::lines::Lines;

/// How long each lives on without a word: the shortest that etcd's members here allow is 1 s.
pub(crate) const TTL: u32 = 3;

/// The kinds of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Go's `concurrency.Mutex`.
    Concurrency,
    /// `etcdctl lock`.
    Etcdctl,
    /// The lock client of jetcd.
    Jetcd,
    /// The lock call of the Rust etcd-client.
    EtcdClient,
    /// lockkeeper.
    Lockkeeper,
}

impl Kind {
    /// Starts a contender, which is a session of its own.
    pub(crate) fn start(self, etcd: &Etcd) -> Box<dyn Contender> {
        let (address, ttl) = (etcd.addresses()[0].to_string(), TTL.to_string());
        let arguments = [&*address, &*ttl];
        match self {
            Self::Concurrency => Box::new(Lines::program("bin/concurrency", &arguments)),
            Self::EtcdClient => Box::new(Lines::program("bin/etcd-client-lock", &arguments)),
            Self::Jetcd => Box::new(Lines::java("java/jetcd/client.jar", &arguments)),
            Self::Etcdctl => Box::new(Etcdctl::new(&address)),
            Self::Lockkeeper => Box::new(Us::new(etcd)),
        }
    }

    /// How often the contender counts; some contenders start a process each time.
    pub(crate) fn times(self) -> u32 {
        if self == Self::Etcdctl { 8 } else { 40 }
    }
}

/// The line of a lock, the holder first.
pub(crate) fn line(etcd: &Etcd, name: &str) -> Vec<Entry> {
    let mut line = etcd.control().keys(format!("{name}/")).unwrap();
    line.sort_by_key(|entry| entry.create_revision);
    line
}

/// Waits until the line has this many claims.
pub(crate) fn until_in_line(etcd: &Etcd, name: &str, count: usize) {
    let start = std::time::Instant::now();
    while line(etcd, name).len() != count {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{count} in the line of {name}: {:?}",
            line(etcd, name)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the contender has the lock, and checks that the store says so too.
pub(crate) fn holds(etcd: &Etcd, name: &str, contender: &mut dyn Contender) -> String {
    let key = contender.held();
    let first = line(etcd, name).swap_remove(0);
    assert_eq!(
        String::from_utf8(first.key).unwrap(),
        key,
        "who holds {name} stands first in its line"
    );
    assert!(first.lease != 0, "{key} ends with a lease");
    key
}
