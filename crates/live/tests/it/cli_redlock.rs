//! The program on a Redlock.

use std::process::Output;

use lockkeeper_live::{Redlock, redis};

use crate::cli_doctor::{PATIENTLY, Report};
use crate::support::{program, stderr, stdout};

fn doctor(url: &str, options: &[&str]) -> Report {
    let mut command = program();
    command.args(["-S", url, "doctor", "--json"]).args(options).args(PATIENTLY);
    Report::of(&command.output().unwrap())
}

fn run(url: &str, args: &[&str]) -> Output {
    program().args(["-S", url]).args(args).output().unwrap()
}

#[test]
fn new_servers_count_after_doctor_init_and_run_has_its_lock() {
    let servers = Redlock::start().unwrap();
    for node in servers.nodes() {
        node.run(&["DEL", "lk:born"]).unwrap();
    }
    let url = servers.url() + "?node-timeout=1s";
    let before = doctor(&url, &[]);
    assert_eq!((before.code, before.line("memory of locks")[0]), (Some(1), "warn"));
    assert!(before.line("memory of locks")[2].contains("doctor --init"));
    // An attempt does not wait until the servers count.
    let early = run(&url, &["run", "-w", "30s", "a", "--", "true"]);
    assert_eq!(early.status.code(), Some(69), "{early:?}");
    assert!(stderr(&early).contains("counts again in"), "{early:?}");
    let after = doctor(&url, &["--init"]);
    assert_eq!((after.code, after.failed()), (Some(0), vec![]), "{:#?}", after.lines);
    assert_eq!(after.line("init"), ["ok", "all 3 servers count now", ""]);
    assert_eq!(after.line("memory of locks")[0], "ok");
    let ran = program()
        .args(["-S", &url, "run", "a", "--", "sh", "-c", "echo $LOCKKEEPER_FENCING_TOKEN"])
        .output()
        .unwrap();
    assert!(stdout(&ran).trim().parse::<u64>().is_ok_and(|token| token > 0), "{ran:?}");
}

#[test]
fn what_a_redlock_never_has_is_refused_with_where_it_is() {
    let servers = lockkeeper_live::redlock().unwrap();
    let url = servers.url();
    let detached = run(&url, &["acquire", "a", "--handle-file", "h"]);
    assert_eq!(detached.status.code(), Some(78), "{detached:?}");
    let printed = stderr(&detached);
    assert!(printed.starts_with("lockkeeper: lock \"a\": redlock://"), "{printed}");
    assert!(printed.contains("none can be detached") && printed.contains("Try: "), "{printed}");
    let permits = run(&url, &["run", "--permits", "1/5", "a", "--", "true"]);
    assert_eq!(permits.status.code(), Some(78), "{permits:?}");
    let printed = stderr(&permits);
    assert!(
        printed.contains("keeps mutexes and read-write locks only, no semaphores"),
        "{printed}"
    );
    assert!(printed.contains("or redis:// or etcd://"), "{printed}");
    let long = run(&url, &["run", "-t", "2m", "a", "--", "true"]);
    assert_eq!(long.status.code(), Some(64), "{long:?}");
    assert!(stderr(&long).contains("or a longer max-keep in the URL"), "{long:?}");
}

#[test]
fn two_servers_are_a_wrong_setting() {
    for url in ["redlock://a,b", "redlock://a"] {
        let output = program().args(["-S", url, "run", "x", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(stderr(&output).contains("3 are needed"), "{output:?}");
    }
}

#[test]
fn a_store_without_an_initialization_says_so() {
    let url = redis().unwrap().url();
    let output = program().args(["-S", &url, "doctor", "--init"]).output().unwrap();
    assert!(stderr(&output).contains("Redis needs no initialization"), "{output:?}");
}

/// A library of Redlock has `SET NX PX` on a majority, as redsync with several pools.
#[test]
fn nothing_excludes_the_redlock_of_a_library() {
    let servers = lockkeeper_live::redlock().unwrap();
    let name = lockkeeper_live::locks::name();
    for node in &servers.nodes()[1..] {
        node.run(&["SET", &name, "worker-7", "NX", "PX", "60000"]).unwrap();
    }
    let plain = format!("{}?layout=plain", servers.nodes()[0].url());
    for url in [servers.url(), plain] {
        let ran = run(&url, &["run", "-n", &name, "--", "true"]);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    }
}

/// Two of three servers are stopped. The error of `run` names them and the lock, within the time
/// that the command has to connect.
#[test]
fn run_names_the_lock_and_the_servers_that_are_silent() {
    let mut servers = Redlock::start().unwrap();
    servers.node(0).pause().unwrap();
    servers.node(2).pause().unwrap();
    let output = program()
        .args(["-S", &servers.url(), "--connect-timeout", "1s", "run", "deploy", "--", "true"])
        .output()
        .unwrap();
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(error.starts_with("lockkeeper: lock \"deploy\": redlock://"), "{error}");
    for (at, node) in servers.nodes().iter().enumerate() {
        let is_named = error.contains(&format!("{}: no answer within", node.address()));
        assert_eq!(is_named, at != 1, "{error}");
    }
}

/// One server of three is gone. Nothing else would say that no other one may fail.
#[test]
fn run_says_with_verbose_which_server_is_of_no_use() {
    let mut servers = Redlock::start().unwrap();
    let gone = servers.nodes()[2].address();
    servers.node(2).kill().unwrap();
    let ran =
        |options: &[&str]| run(&servers.url(), &[options, &["run", "a", "--", "true"]].concat());
    let (quiet, verbose) = (ran(&[]), ran(&["-v"]));
    assert_eq!((quiet.status.code(), verbose.status.code()), (Some(0), Some(0)), "{verbose:?}");
    let named = format!("a server of no use: {gone}: unreachable");
    assert!(stderr(&verbose).contains(&named), "{verbose:?}");
    assert!(!stderr(&quiet).contains("of no use"), "{quiet:?}");
}

/// The default ttl would be longer than `max-keep`.
#[test]
fn the_doctor_tries_locks_with_the_ttl_of_the_url() {
    let servers = Redlock::start().unwrap();
    let url = servers.url() + "?max-keep=10s&node-timeout=1s&ttl=8s";
    let found = doctor(&url, &["--init"]);
    assert_eq!((found.code, found.failed()), (Some(0), vec![]), "{:#?}", found.lines);
}
