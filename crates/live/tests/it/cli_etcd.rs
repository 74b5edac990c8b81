//! `run` on etcd: what becomes of a command whose lock etcd has given away.

use lockkeeper_live::Etcd;

use crate::support::{Client, eventually, is_alive, sh};

/// Ignores TERM, so that only KILL ends it; a grandchild too.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $$ $!; wait; wait; sleep 1000";

/// All that lockkeeper keeps there on leases.
fn leases(etcd: &Etcd) -> Vec<i64> {
    let keys = etcd.control().keys("/lockkeeper/.lock/a/").unwrap();
    keys.iter().map(|entry| entry.lease).collect()
}

/// The next one may have the lock already: the command gets no time to end by itself, whatever `--kill-after` says.
fn is_killed_at_once(how: &str, lose: impl Fn(&Etcd)) {
    let etcd = Etcd::start().unwrap();
    let client = Client::new(&etcd.url(), tempfile::tempdir().unwrap());
    let mut run = client.start(&sh(&["run", "a", "--json", "-t", "15s", "--kill-after", "5s"], STUBBORN));
    let pids = run.line();
    run.event("started");
    lose(&etcd);
    let lost = run.event("lost");
    assert_eq!(lost["signal"], "KILL", "{how}: {lost}");
    for pid in pids.split_whitespace() {
        eventually("the end of the command", || !is_alive(pid));
    }
    assert_eq!(run.finish(), 79, "{how}");
}

#[test]
fn a_command_whose_lease_was_revoked_is_killed_at_once() {
    is_killed_at_once("revoked", |etcd| {
        leases(etcd).into_iter().for_each(|lease| etcd.control().revoke(lease).unwrap())
    });
}

#[test]
fn a_command_whose_key_was_deleted_is_killed_at_once() {
    is_killed_at_once("deleted", |etcd| etcd.control().delete_all("/lockkeeper/.lock/a/").unwrap());
}
