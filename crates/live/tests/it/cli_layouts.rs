//! The messages of the program about the locks of other libraries on Redis.

use std::process::Output;

use lockkeeper_live::locks::name;
use lockkeeper_live::redis;

use crate::support::{program, stderr, stdout};

fn output(url: &str, args: &[&str]) -> Output {
    program().args(["-S", url]).args(args).output().unwrap()
}

/// Fails with this code and one line about the lock and the store, with this problem and remedy.
fn assert_refused(output: &Output, code: i32, lock: &str, pieces: &[&str]) {
    let printed = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(printed.starts_with(&format!("lockkeeper: lock {lock:?}: ")), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    for piece in pieces {
        assert!(printed.contains(piece), "{piece:?} is missing: {printed}");
    }
}

fn url(layout: &str) -> String {
    format!("{}?layout={layout}", redis().unwrap().url())
}

#[test]
fn times_that_a_layout_cannot_keep_name_the_option_or_the_setting() {
    let (name, rw) = (name(), url("redisson-rw"));
    let long = ["run", "-t", "20s", "--lock-delay", "20s", &name, "--", "true"];
    let remedy = "Try: a shorter ttl or lock-delay, at most 30s together";
    let problem = "a ttl of 20s with a lock-delay of 20s";
    assert_refused(&output(&rw, &long), 64, &name, &[&rw, problem, remedy]);
    let delayed = ["run", "--lock-delay", "1s", &name, "--", "true"];
    let problem = "a ttl of 30s with a lock-delay of 1s";
    assert_refused(&output(&rw, &delayed), 64, &name, &[&rw, problem, remedy]);
    // Nothing has set the ttl of 30 s.
    let short = format!("{rw}&watchdog=5s");
    let refused = output(&short, &["run", &name, "--", "true"]);
    assert_refused(&refused, 78, &name, &["a ttl of 30s", "Try: ttl=5s in the URL; 100ms to 5s"]);
    assert_eq!(
        output(&format!("{short}&ttl=5s"), &["run", &name, "--", "true"]).status.code(),
        Some(0)
    );
}

#[test]
fn a_kind_of_lock_that_a_layout_lacks_names_the_layout_that_has_it() {
    let name = name();
    for (layout, option, remedy) in [
        ("redisson", ["--permits", "1/5"], "layout=redisson-semaphore"),
        ("plain", ["--permits", "1/5"], "layout=redisson-semaphore"),
        ("redisson", ["-s", "-q"], "layout=redisson-rw"),
        ("redisson-semaphore", ["-w", "1s"], "layout=redisson"),
    ] {
        let url = url(layout);
        let refused = output(&url, &[&["run"], &option[..], &[&name, "--", "true"]].concat());
        assert_refused(&refused, 78, &name, &[&url, &format!(", or {remedy}\n")]);
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_named_with_the_lock_and_the_layout() {
    let closed = "redis://127.0.0.1:1?layout=plain";
    for args in [&["run", "a", "--", "true"][..], &["acquire", "a", "--handle-file", "h"]] {
        let refused = output(closed, &[&["--connect-timeout", "200ms"], args].concat());
        assert_refused(&refused, 69, "a", &[closed, "cannot be reached"]);
    }
}

#[test]
fn a_request_of_a_program_without_lockkeeper_shows_the_whole_command() {
    let (server, name, plain) = (redis().unwrap(), name(), url("plain"));
    server.run(&["SET", &name, "worker-7", "PX", "60000"]).unwrap();
    let refused = output(&plain, &["request", &name, "--reason", "a fix waits"]);
    let command = format!("lockkeeper break -S '{plain}' {name} --id ");
    assert_refused(&refused, 78, &name, &["worker-7 holds the lock", &command]);
    let printed = stderr(&refused);
    let id = printed.split_once("--id ").unwrap().1.split_once(' ').unwrap().0.to_owned();
    let broken = output(&plain, &["break", &name, "--id", &id, "--now", "--reason", "x", "--yes"]);
    assert_eq!(broken.status.code(), Some(0), "{broken:?}");
    let printed = stderr(&broken);
    assert!(
        printed.contains("it has no fencing token") && printed.contains("end it first"),
        "{printed}"
    );
}

/// The variable changes the key that other libraries see, as the option does.
#[test]
fn the_prefix_of_the_variable_is_part_of_the_key_of_other_libraries() {
    let (server, name) = (redis().unwrap(), name());
    server.run(&["SET", &format!("shop:{name}"), "worker-7", "PX", "60000"]).unwrap();
    let run = |prefix: &str| {
        let mut command = program();
        command.args(["-S", &url("plain"), "run", "-n", &name, "--", "true"]);
        command.env("LOCKKEEPER_PREFIX", prefix).output().unwrap().status.code()
    };
    assert_eq!((run("shop:"), run("other:")), (Some(75), Some(0)));
    let doctor = output(&url("plain"), &["--prefix", "shop:", "doctor", "--json"]);
    assert!(stdout(&doctor).contains("~lkf:{shop:* ~shop:* "), "{doctor:?}");
}

/// A wait for such a key would never end.
#[test]
fn a_key_without_a_ttl_is_reported_with_the_command_that_removes_it() {
    let (name, url) = (name(), url("plain"));
    redis().unwrap().run(&["SET", &name, "worker-7"]).unwrap();
    for limit in [&["-n"][..], &["-w", "300ms"]] {
        let busy = output(&url, &[&["run"], limit, &[&name, "--", "true"]].concat());
        let remedy = format!("without an end. Try: lockkeeper break -S '{url}' {name} --id ");
        assert_refused(
            &busy,
            75,
            &name,
            &["; held by worker-7", &remedy, " --now --reason dead, if its"],
        );
        let printed = stderr(&busy);
        let id = printed.split_once("--id ").unwrap().1.split(' ').next().unwrap().to_owned();
        if limit.len() == 1 {
            continue;
        }
        let options = ["--id", &id, "--now", "--reason", "dead", "--yes"];
        let broken = output(&url, &[&["break", &name], &options[..]].concat());
        assert_eq!(broken.status.code(), Some(0), "{broken:?}");
        assert_eq!(output(&url, &["run", "-n", &name, "--", "true"]).status.code(), Some(0));
    }
}
