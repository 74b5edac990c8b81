//! `acquire`, `renew` and `release`: a lock over several steps.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::documents::block;
use crate::support::{Store, eventually, script, stderr, stdout, text};

fn acquire(store: &Store, more: &[&str]) -> Output {
    store.output(&[&["acquire", "a", "--handle-file", "h"], more].concat())
}

fn acquired(store: &Store, more: &[&str]) -> String {
    let output = acquire(store, more);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn with_handle(store: &Store, command: &str) -> Output {
    store.output(&[command, "--handle-file", "h"])
}

/// The lock has no holder, and beside the store there is no file but the store's own.
fn assert_nothing_is_left(store: &Store) {
    assert_eq!(store.inspect("a")["holders"], json!([]));
    let files = fs::read_dir(store.path(""))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let strange: Vec<_> = files.filter(|file| !file.starts_with("locks.db")).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn recipe_a_lock_over_several_steps() {
    let recipe = block("docs/recipes.md", "trap 'lockkeeper release");
    for (second, code) in [("exit 0", 0), ("exit 7", 7)] {
        let store = Store::new();
        let look =
            "lockkeeper inspect db/migrate --json | grep -q '\"state\":\"held\"' && state=held";
        script(&store.path("step1"), &format!("#!/bin/sh\n{look}\necho \"1 $state\" >> steps\n"));
        script(
            &store.path("step2"),
            &format!("#!/bin/sh\n{look}\necho \"2 $state\" >> steps\n{second}\n"),
        );
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
        let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &recipe.replace("redis://10.0.0.5", &store.url())]);
        let output = shell.current_dir(store.path("")).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stdout(&output).trim_end().parse::<u64>().is_ok(), "{}", stdout(&output));
        assert_eq!(text(store.path("steps")), "1 held\n2 held\n");
        assert!(!store.path("handle").exists());
        assert_eq!(store.inspect("db/migrate")["state"], "free");
    }
}

#[test]
fn two_releases_at_once_are_one() {
    let store = Store::new();
    acquired(&store, &[]);
    let outage = store.outage();
    let mut releases = [0, 1].map(|_| store.start(&["release", "--handle-file", "h"]));
    for release in &releases {
        // The command has read the handle, and waits for the store.
        eventually("the gate", || {
            let files = fs::read_dir(format!("/proc/{}/fd", release.pid())).unwrap();
            files.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|to| to.ends_with("locks.db.gate"))
            })
        });
    }
    drop(outage);
    let codes = releases.each_mut().map(|release| release.finish());
    assert!(codes.iter().all(|code| [0, 1].contains(code)) && codes.contains(&0), "{codes:?}");
    assert_nothing_is_left(&store);
}

#[test]
fn acquire_prints_the_token_and_writes_the_handle() {
    let store = Store::new();
    let printed = acquired(&store, &["--reason", "a test", "--owner", "ci"]);
    let lock = store.inspect("a");
    let holder = &lock["holders"][0];
    assert_eq!(printed, format!("{}\n", holder["token"].as_str().unwrap()));
    assert_eq!((&holder["owner"], &holder["reason"]), (&json!("ci"), &json!("a test")));
    let left = holder["expires_in_ms"].as_u64().unwrap();
    assert!((500_000..=600_000).contains(&left), "ten minutes unless told otherwise: {left}");
    let handle = text(store.path("h"));
    assert!(
        handle.starts_with("lkh1.") && handle.ends_with('\n') && handle.lines().count() == 1,
        "{handle}"
    );
    assert_eq!(fs::metadata(store.path("h")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75);
    let output = with_handle(&store, "release");
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), String::new()),
        "{}",
        stderr(&output)
    );
    assert_nothing_is_left(&store);
}

#[test]
fn the_answers_are_json_where_wanted() {
    let store = Store::new();
    let one = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let mut printed = one(&acquire(&store, &["--json", "--ttl", "90s", "--prefix", "p/"]));
    assert!(printed["waited_ms"].take().is_u64());
    let token = store.inspect("p/a")["last_token"].clone();
    let sequencer = format!("lk1.x.{}.p%2Fa", token.as_str().unwrap());
    let expected = json!({"lock": "a", "mode": "exclusive", "token": token, "sequencer": sequencer,
        "waited_ms": null, "ttl_ms": 90_000});
    assert_eq!(printed, expected);
    let renewed = store.output(&["renew", "--handle-file", "h", "--json"]);
    let expected =
        json!({"lock": "p/a", "held": true, "token": token, "ttl_ms": 90_000, "reason": null});
    assert_eq!(one(&renewed), expected);
    let handle = text(store.path("h"));
    let released = store.output(&["release", "--handle-file", "h", "--json"]);
    assert_eq!(one(&released), json!({"lock": "p/a", "released": true}));
    fs::write(store.path("h"), handle).unwrap();
    let renewed = store.output(&["renew", "--handle-file", "h", "--json"]);
    assert_eq!((one(&renewed)["held"].clone(), renewed.status.code()), (json!(false), Some(1)));
    let released = store.output(&["release", "--handle-file", "h", "--json"]);
    assert_eq!(one(&released), json!({"lock": "p/a", "released": false}));
    assert_eq!(released.status.code(), Some(1));
}

#[test]
fn a_lock_that_was_renewed_too_late_names_its_ttl_and_the_remedy() {
    let store = Store::new();
    acquired(&store, &["-t", "1s"]);
    store.inspect_until("a", |lock| lock["state"] == "free");
    for command in ["renew", "release"] {
        let output = with_handle(&store, command);
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        let problem = "lock \"a\": the lock was lost: it was not renewed within its ttl of 1s, or ";
        assert!(printed.contains(problem), "{printed}");
        assert!(printed.ends_with("with a longer --ttl or an earlier renew\n"), "{printed}");
    }
}

#[test]
fn acquire_of_a_busy_lock_is_75_and_leaves_no_file() {
    let store = Store::new();
    let _holder = store.start(&["run", "a", "--owner", "me@here", "--", "cat"]);
    store.inspect_until("a", |lock| lock["state"] == "held");
    for wait in [&["-n"][..], &["--try"], &["-w", "50ms"]] {
        let output = acquire(&store, wait);
        assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("lock \"a\"") && stderr(&output).contains("me@here"),
            "{}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "");
        assert!(!store.path("h").exists());
    }
    assert_eq!(store.inspect("a")["waiters"], json!([]));
}

#[test]
fn acquire_waits_in_line() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["acquire", "a", "--handle-file", "h"], "a", 0);
    assert!(!store.path("h").exists());
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0, "{}", waiter.rest());
    assert_eq!(waiter.line(), store.inspect("a")["holders"][0]["token"].as_str().unwrap());
    assert_eq!(with_handle(&store, "release").status.code(), Some(0));
}

#[test]
fn a_signal_while_it_waits_leaves_the_line() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["acquire", "a", "--handle-file", "h"], "a", 0);
    let signalled = Instant::now();
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.finish(), 143);
    assert!(signalled.elapsed() < Duration::from_secs(3), "{:?}", signalled.elapsed());
    // Sooner than the lease of a vanished waiter would have ended.
    store.inspect_until("a", |lock| lock["waiters"] == json!([]));
    assert!(signalled.elapsed() < Duration::from_millis(4500), "{:?}", signalled.elapsed());
    assert_eq!(holder.finish(), 0);
    assert_nothing_is_left(&store);
}

#[test]
fn a_handle_file_that_is_there_is_left_alone() {
    let store = Store::new();
    acquired(&store, &[]);
    let handle = text(store.path("h"));
    let refused = |file: &str, says: &str| {
        let output = store.output(&["acquire", "b", "--handle-file", file]);
        let line = format!("lockkeeper: the handle file {file:?} exists already, {says}\n");
        assert_eq!((output.status.code(), stderr(&output)), (Some(78), line));
    };
    refused(
        "h",
        "with the handle of the lock \"a\". Try: lockkeeper release --handle-file h, which ends that lock and deletes \
         the file; or another file",
    );
    assert_eq!(text(store.path("h")), handle);
    // mktemp(1) makes such a file.
    fs::write(store.path("of mktemp"), "").unwrap();
    refused("of mktemp", "and is empty. Try: rm 'of mktemp': acquire itself makes the file");
    fs::write(store.path("mine"), "mine").unwrap();
    refused("mine", "and is no handle of lockkeeper. Try: another file");
    assert_eq!(store.code(&["inspect", "b"]), 1);
    // A broken link is a file too: its target may belong to any user.
    std::os::unix::fs::symlink("nowhere", store.path("link")).unwrap();
    assert_eq!(store.code(&["acquire", "b", "--handle-file", "link"]), 78);
    assert!(!store.path("nowhere").exists());
}

#[test]
fn where_no_handle_can_be_written_nothing_is_locked() {
    let store = Store::new();
    let output = store.output(&["acquire", "a", "--handle-file", "missing/h"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("missing/h"), "{}", stderr(&output));
    // The command had no reason to make the store.
    assert!(!store.database().exists());
    // A file that appears during the wait in the queue.
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["acquire", "a", "--handle-file", "h"], "a", 0);
    fs::write(store.path("h"), "mine").unwrap();
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 78);
    assert!(waiter.rest().contains("the lock was released"), "{:?}", waiter.seen);
    assert_eq!(text(store.path("h")), "mine");
    fs::remove_file(store.path("h")).unwrap();
    assert_nothing_is_left(&store);
}

#[test]
fn where_the_token_cannot_be_printed_nothing_is_locked() {
    let store = Store::new();
    let mut command = store.command(&["acquire", "a", "--handle-file", "h"]);
    let output = command.stdout(File::create("/dev/full").unwrap()).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("the lock was released"), "{}", stderr(&output));
    assert_nothing_is_left(&store);
}

#[test]
fn renew_restarts_the_ttl_until_the_lock_is_lost() {
    let store = Store::new();
    acquired(&store, &["--ttl", "6s"]);
    let began = Instant::now();
    let left = || store.inspect("a")["holders"][0]["expires_in_ms"].as_u64().unwrap_or(0);
    while began.elapsed() < Duration::from_secs(7) {
        eventually("a part of its time", || left() < 5_000);
        let output = with_handle(&store, "renew");
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(0), ""),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(store.inspect("a")["state"], "held");
    store.inspect_until("a", |lock| lock["state"] == "free");
    for _ in 0..2 {
        let output = with_handle(&store, "renew");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("lock \"a\": the lock was lost"), "{}", stderr(&output));
        assert!(store.path("h").exists());
    }
    let output = with_handle(&store, "release");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("lock \"a\": the lock was lost"), "{}", stderr(&output));
    assert_nothing_is_left(&store);
}

#[test]
fn renew_reports_who_broke_the_lock() {
    let store = Store::new();
    let token = acquired(&store, &[]).trim_end().parse().unwrap();
    store.break_lock("a", token, Evict::Mark);
    let output = with_handle(&store, "renew");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ops broke it (a test)"), "{}", stderr(&output));
    let output = store.output(&["renew", "--handle-file", "h", "--json"]);
    assert!(stdout(&output).contains("\"reason\":\"broken\""), "{}", stdout(&output));
    assert_eq!(with_handle(&store, "release").status.code(), Some(1));
    assert_nothing_is_left(&store);
}

#[test]
fn release_frees_nobody_elses_lock() {
    let store = Store::new();
    acquired(&store, &[]);
    let handle = text(store.path("h"));
    assert_eq!(with_handle(&store, "release").status.code(), Some(0));
    let _holder = store.hold("a");
    fs::write(store.path("h"), handle).unwrap();
    assert_eq!(with_handle(&store, "release").status.code(), Some(1));
    assert_eq!(store.inspect("a")["state"], "held");
}

#[test]
fn another_store_than_the_handles_is_78_and_names_both() {
    let (store, other) = (Store::new(), Store::new());
    acquired(&store, &[]);
    let file = store.path("h");
    for command in ["renew", "release"] {
        let output = other.output(&[command, "--handle-file", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
        for part in [store.url(), other.url()] {
            assert!(stderr(&output).contains(&part), "{part}: {}", stderr(&output));
        }
        assert!(file.exists());
    }
    assert_eq!(store.inspect("a")["state"], "held");
    // The handle has the full name; a prefix changes nothing.
    let output = store
        .command(&["release", "--handle-file", "h"])
        .env("LOCKKEEPER_PREFIX", "x/")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_store_may_be_named_by_another_path() {
    let store = Store::new();
    let relative = |args: &[&str]| {
        crate::support::program().current_dir(store.path("")).args(args).output().unwrap()
    };
    let output = relative(&["-S", "file:./locks.db", "acquire", "a", "--handle-file", "h"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(with_handle(&store, "renew").status.code(), Some(0));
    assert_eq!(with_handle(&store, "release").status.code(), Some(0));
}

#[test]
fn a_malformed_handle_file_is_78_and_not_repeated() {
    let store = Store::new();
    acquired(&store, &[]);
    let handle = text(store.path("h"));
    for malformed in [
        "",
        "hush\n",
        "lkh1.hush\n",
        &handle[..40],
        &handle.repeat(2),
        &handle.replace("lkh1", "lkh9"),
    ] {
        fs::write(store.path("h"), malformed).unwrap();
        for command in ["renew", "release"] {
            let output = with_handle(&store, command);
            assert_eq!(output.status.code(), Some(78), "{malformed:?}: {}", stderr(&output));
            let printed = stderr(&output);
            assert!(
                printed.contains("\"h\"")
                    && printed.contains("not a handle")
                    && !printed.contains("hush"),
                "{printed}"
            );
            assert_eq!(printed.lines().count(), 1, "{printed}");
        }
    }
    fs::write(store.path("h"), [0xff, 0xfe]).unwrap();
    assert_eq!(with_handle(&store, "renew").status.code(), Some(78));
    fs::remove_file(store.path("h")).unwrap();
    for command in ["renew", "release"] {
        let output = with_handle(&store, command);
        assert_eq!(output.status.code(), Some(78));
        assert!(stderr(&output).contains("cannot be read"), "{}", stderr(&output));
    }
}

#[test]
fn the_handle_is_kept_while_the_store_does_not_answer() {
    let store = Store::new();
    acquired(&store, &[]);
    let outage = store.outage();
    for command in ["renew", "release"] {
        let output = store.output(&["--connect-timeout", "300ms", command, "--handle-file", "h"]);
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    }
    assert!(store.path("h").exists());
    drop(outage);
    assert_eq!(with_handle(&store, "release").status.code(), Some(0));
    assert_nothing_is_left(&store);
}

#[test]
fn the_handle_is_in_its_file_and_nowhere_else() {
    let store = Store::new();
    let mut printed = String::new();
    for args in [
        &["acquire", "a", "-vv", "--handle-file", "h"][..],
        &["renew", "-vv", "--handle-file", "h"],
    ] {
        let output = store.output(args);
        printed.push_str(&(stdout(&output) + &stderr(&output)));
    }
    let handle = text(store.path("h"));
    assert!(!printed.contains("lkh1") && !printed.contains(handle.trim_end()), "{printed}");
    let output = store.output(&["release", "-vv", "--handle-file", "h"]);
    assert!(!stderr(&output).contains("lkh1"));
}

#[test]
fn what_cannot_be_acquired_is_refused_first() {
    let store = Store::new();
    for (args, code) in [
        (&["acquire", "", "--handle-file", "h"][..], 64),
        (&["acquire", "a\nb", "--handle-file", "h"], 64),
        (&["acquire", "a", "--handle-file", "h", "--ttl", "forever"], 64),
        (&["acquire", "a"], 64),
        (&["renew"], 64),
        (&["acquire", "a", "--handle-file", "h", "--ttl", "1ms"], 64),
    ] {
        let output = store.output(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(!store.path("h").exists());
    }
    assert_nothing_is_left(&store);
}
