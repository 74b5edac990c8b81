//! `watch`.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Process, Store, eventually, stderr};

fn change(watch: &Process) -> Value {
    serde_json::from_str(&watch.line()).unwrap()
}

fn printed(watch: &Process) -> [String; 3] {
    let change = change(watch);
    ["event", "lock", "owner"].map(|key| change[key].as_str().unwrap().to_owned())
}

/// A watch that has begun: it has reported a present holder.
fn watching(store: &Store, args: &[&str]) -> Process {
    let watch = store.start(&[&["watch", "--json"], args].concat());
    assert_eq!(printed(&watch)[0], "held");
    watch
}

#[test]
fn watch_reports_who_comes_and_goes() {
    let store = Store::new();
    let mut first = store.start(&["--owner", "one", "run", "a", "--json", "--", "cat"]);
    let token = first.event("acquired")["token"].clone();
    let mut watch = store.start(&["watch", "--json", "a"]);
    let held = change(&watch);
    let keys: Vec<&String> = held.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["event", "lock", "owner", "time", "token"]);
    assert_eq!(
        (&held["event"], &held["lock"], &held["owner"]),
        (&"held".into(), &"a".into(), &"one".into())
    );
    assert_eq!(held["token"], token);
    assert!(held["time"].as_str().unwrap().ends_with('Z'));
    let mut second = store.queue(&["--owner", "two", "run", "a", "--json", "--", "cat"], "a", 0);
    let queued = change(&watch);
    assert_eq!(
        (&queued["event"], &queued["owner"], &queued["token"]),
        (&"queued".into(), &"two".into(), &Value::Null)
    );
    let third = store.queue(&["--owner", "three", "run", "a", "--", "true"], "a", 1);
    assert_eq!(printed(&watch), ["queued", "a", "three"]);
    third.signal(Signal::TERM);
    assert_eq!(printed(&watch), ["left", "a", "three"]);
    assert_eq!(first.finish(), 0);
    let left = change(&watch);
    assert_eq!(
        (&left["event"], &left["owner"], &left["token"]),
        (&"left".into(), &"one".into(), &token)
    );
    assert_eq!(printed(&watch), ["held", "a", "two"]);
    second.event("started");
    assert_eq!(second.finish(), 0);
    assert_eq!(printed(&watch), ["free", "a", "two"]);
    watch.signal(Signal::TERM);
    assert_eq!(watch.finish(), 0);
    assert_eq!(watch.rest(), "");
}

#[test]
fn a_holder_that_was_killed_leaves_too() {
    let store = Store::new();
    // Some stores notice the end of the lease only.
    let run = ["--owner", "one", "run", "a", "--json", "--ttl", "10s", "--", "sleep", "60"];
    let mut holder = store.start(&run);
    holder.event("started");
    let watch = watching(&store, &["a"]);
    holder.signal(Signal::KILL);
    assert_eq!(printed(&watch), ["free", "a", "one"]);
}

#[test]
fn watch_of_a_prefix_is_of_all_its_locks() {
    let store = Store::new();
    let mut holders: Vec<_> = ["b/1", "b/2", "c"].map(|name| store.hold(name)).into();
    let watch = store.start(&["watch", "--json", "b/*"]);
    let mut seen = [printed(&watch), printed(&watch)].map(|[event, lock, _]| (event, lock));
    seen.sort();
    assert_eq!(seen, [("held".into(), "b/1".into()), ("held".into(), "b/2".into())]);
    drop(store.hold("d"));
    assert_eq!(holders[1].finish(), 0);
    assert_eq!(printed(&watch)[..2], ["free", "b/2"]);
    let _back = store.hold("b/2");
    assert_eq!(printed(&watch)[..2], ["held", "b/2"]);
    // Without a name all locks are.
    let watch = store.start(&["watch", "--json"]);
    let names: Vec<String> = (0..3).map(|_| printed(&watch)[1].clone()).collect();
    assert_eq!(names, ["b/1", "b/2", "c"]);
}

#[test]
fn watch_ends_well_at_int_and_term() {
    let store = Store::new();
    let _holder = store.hold("a");
    for signal in [Signal::INT, Signal::TERM] {
        let mut watch = watching(&store, &["a"]);
        watch.signal(signal);
        assert_eq!(watch.finish(), 0);
    }
    // HUP is not caught.
    let mut watch = watching(&store, &["a"]);
    watch.signal(Signal::HUP);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&watch.wait()), Some(1));
}

#[test]
fn a_full_pipe_does_not_hold_up_a_signal() {
    let store = Store::new();
    // More than a pipe takes, in one look: owners of 255 bytes in line behind each other.
    let owner = "x".repeat(255);
    let _holder = store.hold("a");
    let mut command = store.command(&["watch", "--json", "a"]);
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let mut watch = command.stdout(writer).spawn().unwrap();
    drop(command);
    let mut waiters = Vec::new();
    for others in 0..12 {
        waiters.push(store.queue(&["--owner", &owner, "run", "a", "--", "true"], "a", others));
    }
    let pid = rustix::process::Pid::from_child(&watch);
    let full = || rustix::io::ioctl_fionread(&reader).unwrap() > 3500;
    eventually("the pipe", full);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let mut status = None;
    eventually("the watch", || {
        status = watch.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_it_as_sigpipe_would() {
    let store = Store::new();
    let _holder = store.hold("a");
    let mut command = store.command(&["watch", "a"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer).stderr(std::process::Stdio::piped());
    drop(reader);
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.signal(), stderr(&output).as_str()), (Some(13), ""));
}

#[test]
fn watch_aligns_a_waiter_with_its_holder() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--", "true"], "a", 0);
    let watch = store.start(&["watch", "a"]);
    let lines = [watch.line(), watch.line()];
    let lock_at = |line: &str| line.find(" a ");
    assert!(lines[0].contains("held") && lines[1].contains("queued"), "{lines:#?}");
    assert_eq!(lock_at(&lines[0]), lock_at(&lines[1]), "{lines:#?}");
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0);
}

#[test]
fn people_get_aligned_lines_without_colours_in_a_pipe() {
    let store = Store::new();
    let _holders = ["a", "a/longer"].map(|name| store.hold(name));
    let watch = store.start(&["watch"]);
    let _late = store.hold("b");
    let lines = [watch.line(), watch.line(), watch.line()];
    assert!(
        lines.iter().all(|line| !line.contains('\u{1b}') && line.contains("Z  held  ")),
        "{lines:#?}"
    );
    // Columns never get narrower.
    let token_at = |line: &str| line.rmatch_indices("  ").next().map(|(at, _)| at);
    assert_eq!(token_at(&lines[1]), token_at(&lines[2]), "{lines:#?}");
}

#[test]
fn a_bad_name_is_a_matter_of_usage() {
    let store = Store::new();
    for bad in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(store.code(&["watch", bad]), 64, "{bad:?}");
    }
    assert_eq!(store.code(&["watch", "a", "b"]), 64);
}
