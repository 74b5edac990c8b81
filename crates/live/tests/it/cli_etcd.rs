//! `run` on etcd: the end of a command whose lock etcd has granted again, and how often a command
//! runs.

use lockkeeper_live::Etcd;
use rustix::process::Signal;

use crate::support::{Client, eventually, is_alive, sh, signal};

/// Ignores TERM, so that only KILL ends it; its child does too.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $$ $!; wait; wait; sleep 1000";

/// All that lockkeeper keeps there on leases.
fn leases(etcd: &Etcd) -> Vec<i64> {
    let keys = etcd.control().keys("/lockkeeper/.lock/a/").unwrap();
    keys.iter().map(|entry| entry.lease).collect()
}

/// The next holder may have the lock already: the command gets no time to end by itself, whatever
/// `--kill-after` says.
fn is_killed_at_once(how: &str, lose: impl Fn(&Etcd)) {
    let etcd = Etcd::start().unwrap();
    let client = Client::new(&etcd.url(), tempfile::tempdir().unwrap());
    let mut run =
        client.start(&sh(&["run", "a", "--json", "-t", "15s", "--kill-after", "5s"], STUBBORN));
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

/// The connection has worked: nothing in the URL can be wrong.
#[test]
fn an_outage_is_no_reason_to_doubt_the_url() {
    let etcd = Etcd::start().unwrap();
    let client = Client::new(&etcd.url(), tempfile::tempdir().unwrap());
    let mut holder = client.start(&sh(&["run", "a", "-t", "6s"], STUBBORN));
    holder.line();
    let mut waiter = client.queue(&["run", "a", "-w", "6s", "--", "true"], "a", 0);
    // An etcd that ends in order closes its connections.
    signal(etcd.pid(0), Signal::TERM);
    for (run, code, problem) in
        [(&mut holder, 79, "a renewal failed ("), (&mut waiter, 69, "the store does not answer (")]
    {
        assert_eq!(run.finish(), code);
        let printed = run.rest();
        let outage: Vec<_> = printed.lines().filter(|line| line.contains(problem)).collect();
        assert!(!outage.is_empty(), "{printed}");
        for line in outage {
            assert!(line.contains(". Try: lockkeeper doctor -S "), "{printed}");
            assert!(line.contains("a look whether "), "{printed}");
        }
        assert!(!printed.contains("etcds://"), "{printed}");
    }
}

/// etcd keeps the lock when the process has ended.
#[test]
fn a_command_runs_once_in_its_time() {
    let etcd = Etcd::start().unwrap();
    let client = Client::new(&etcd.url(), tempfile::tempdir().unwrap());
    let ran = client.path("ran");
    for (args, runs) in
        [(&["--once-per", "10m"][..], 1), (&["-n", "-E", "0", "--min-hold", "10m"], 1)]
    {
        let mut run = vec!["run", "a"];
        run.extend(args);
        assert_eq!(client.start(&sh(&run, &format!("echo ran >> {}", ran.display()))).finish(), 0);
        assert_eq!(std::fs::read_to_string(&ran).unwrap().lines().count(), runs);
    }
    let shown = client.inspect("a");
    assert_eq!(shown["holders"][0]["kept"], true, "{shown}");
}
