//! Every command of the program once, on each topology.

use std::process::Command;

use lockkeeper_live::{cluster, etcd, etcd_three, etcd_tls, redis, redis_tls, sentinel};
use rustix::process::Signal;

use crate::cli_doctor::PATIENTLY;
use crate::support::{Process, program, sh, stderr, stdout};

#[test]
fn on_a_server() {
    everything(&redis().unwrap().url());
    everything(&format!("{}/1?resp=2", redis().unwrap().url()));
}

#[test]
fn on_a_server_with_tls() {
    let redis = redis_tls().unwrap();
    everything(&format!(
        "{}?ca={}",
        redis.url(),
        redis.certificates().unwrap().authority().display()
    ));
}

#[test]
fn on_the_master_that_sentinels_know() {
    everything(&sentinel().unwrap().url());
}

#[test]
fn on_a_cluster() {
    everything(&cluster().unwrap().url());
}

#[test]
fn on_etcd() {
    everything(&etcd().unwrap().url());
    everything(&format!("{}/a/prefix?timeout=2s", etcd().unwrap().url()));
}

#[test]
fn on_three_members_of_etcd() {
    everything(&etcd_three().unwrap().url());
}

#[test]
fn on_etcd_with_tls() {
    let etcd = etcd_tls().unwrap();
    everything(&format!(
        "{}?ca={}",
        etcd.url(),
        etcd.certificates().unwrap().authority().display()
    ));
}

/// All operations on a line, with a reader, a writer behind it, and a holder that is broken.
pub(crate) fn everything(url: &str) {
    let dir = tempfile::tempdir().unwrap();
    let asked = |args: &[&str]| -> Command {
        let mut command = program();
        // Other tests use the same server meanwhile.
        command
            .args(["--prefix", &format!("{}/", dir.path().display())])
            .args(PATIENTLY)
            .args(args);
        command.env("LOCKKEEPER_STORE", url).current_dir(dir.path());
        command
    };
    let done = |args: &[&str], code: i32| -> String {
        let output = asked(args).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?} on {url}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        stdout(&output)
    };
    let mut watch = Process::start(&mut asked(&["watch", "a"]));
    let mut holder = Process::start(&mut asked(&sh(
        &["--owner", "me", "run", "a", "-s", "-t", "9s", "--json"],
        "cat",
    )));
    let acquired = holder.event("acquired");
    let (token, sequencer) =
        (acquired["token"].as_str().unwrap(), acquired["sequencer"].as_str().unwrap());
    holder.event("started");
    let held = watch.line();
    assert!(held.contains("held") && held.contains("me"), "{held}");
    assert_eq!(done(&["check", sequencer], 0), "valid\n");
    done(&["run", "a", "-n", "--", "true"], 75);
    done(&["run", "a", "b", "--shared", "-n", "--", "true"], 0);
    let mut next = Process::start(&mut asked(&["run", "a", "--json", "--", "true"]));
    next.event("queued");
    assert!(done(&["list"], 0).contains("me"));
    assert!(done(&["inspect", "a"], 0).contains("me"));
    done(&["--owner", "ops", "request", "a", "--reason", "a hot fix"], 0);
    let request = holder.event("release_requested");
    assert_eq!((&request["by"], &request["why"]), (&"ops".into(), &"a hot fix".into()));
    done(&["--owner", "ops", "break", "a", "--token", token, "--reason", "stuck", "--yes"], 0);
    let lost = holder.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"broken".into(), &"TERM".into()));
    assert_eq!(holder.finish(), 79);
    assert_eq!(next.finish(), 0);
    assert_eq!(done(&["check", sequencer], 1), "stale\n");
    done(&["run", "c", "--permits", "2/3", "--", "true"], 0);
    done(&["acquire", "b", "--handle-file", "h", "--ttl", "1m"], 0);
    done(&["renew", "--handle-file", "h"], 0);
    done(&["run", "b", "-n", "--", "true"], 75);
    done(&["release", "--handle-file", "h"], 0);
    done(&["inspect", "b"], 1);
    done(&["request", "b"], 1);
    let mut leader =
        Process::start(&mut asked(&["elect", "d", "--value", "d:80", "--json", "--", "cat"]));
    leader.event("started");
    assert_eq!(done(&["leader", "d"], 0), "d:80\n");
    assert_eq!(leader.finish(), 0);
    assert!(done(&["bench", "--seconds", "1", "--tasks", "4"], 0).contains("pairs"));
    assert!(done(&["doctor"], 0).contains("this user may do all"), "{url}");
    watch.signal(Signal::TERM);
    assert_eq!(watch.finish(), 0);
}
