//! For how long a lock is held: `--min-hold` and `--max-hold`.

use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Process, Store, events, eventually, reaped, sh, stderr, text};

/// A run whose command has ended, while the lock is still held.
fn holding_on(store: &Store, args: &[&str], script: &str) -> Process {
    let mut run = store.start(&sh(&[&["run", "a", "--json"], args].concat(), script));
    reaped(&run.event("started")["pid"].to_string());
    run
}

#[test]
fn max_hold_that_is_over_before_the_lock_is_confirmed_is_the_end() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--max-hold", "1ms", "--", "sleep", "1000"], "a", 0);
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 79);
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn min_hold_counts_from_the_grant() {
    let store = Store::new();
    let mut run = holding_on(&store, &["--min-hold", "8s"], "sleep 4; exit 3");
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75);
    assert_eq!(run.finish(), 3);
    assert_eq!(run.events(), ["acquired", "started", "released", "exited"]);
    let released = events(&run.seen.join("\n")).into_iter().find(|event| event["event"] == "released").unwrap();
    let held = released["held_ms"].as_u64().unwrap();
    assert!((8000..11_900).contains(&held), "{held}");
}

#[test]
fn min_hold_is_nothing_to_a_command_that_takes_longer() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--json", "--min-hold", "100ms", "--", "sleep", "0.3"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn min_hold_is_over_at_a_signal() {
    let store = Store::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        let mut run = holding_on(&store, &["--min-hold", "10m"], "exit 3");
        run.signal(Signal::WINCH);
        assert_eq!(store.inspect("a")["state"], "held");
        run.signal(signal);
        assert_eq!(run.wait().signal(), Some(signal.as_raw()), "{signal:?}");
        assert_eq!(store.inspect("a")["state"], "free", "{signal:?}");
        assert_eq!(run.events(), ["acquired", "started", "released", "exited"]);
        assert!(run.seen.last().unwrap().contains("\"cause\":\"signal\""), "{:?}", run.seen);
    }
}

#[test]
fn min_hold_is_over_at_a_signal_though_the_store_is_away() {
    let ends_in = |_| {
        let store = Store::new();
        let mut run = holding_on(&store, &["--min-hold", "10m"], "exit 3");
        let _outage = store.outage();
        let sent = Instant::now();
        run.signal(Signal::TERM);
        assert_eq!(run.wait().signal(), Some(15));
        sent.elapsed()
    };
    // A release that is not of somebody who leaves is tried for 3 s, each time; a busy machine is slow now and then.
    let took = (0..3).map(ends_in).min().unwrap();
    assert!(took < Duration::from_millis(2800), "{took:?}");
}

#[test]
fn min_hold_does_not_outlast_a_command_that_was_asked_to_end() {
    let store = Store::new();
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--min-hold", "10m"], script));
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.finish(), 5);
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn min_hold_makes_a_loss_after_the_commands_end_only_an_event() {
    let store = Store::new();
    let mut run = holding_on(&store, &["-t", "6s", "--min-hold", "10m"], "exit 3");
    // By then the run has asked the store, at the end of its command, whether it still held the lock.
    is_renewed(&store);
    is_renewed(&store);
    let token = run_token(&run);
    store.break_lock("a", token, Evict::Now);
    let lost = run.event("lost");
    assert_eq!(lost["signal"], Value::Null);
    assert_eq!(run.finish(), 3);
    assert_eq!(run.events(), ["acquired", "started", "lost", "exited"]);
}

/// Waits for a renewal.
fn is_renewed(store: &Store) {
    let mut before = u64::MAX;
    eventually("a renewal", || {
        let left = store.inspect("a")["holders"][0]["expires_in_ms"].as_u64().unwrap();
        left > mem::replace(&mut before, left)
    });
}

fn run_token(run: &Process) -> u64 {
    let seen = events(&run.seen.join("\n"));
    seen.iter().find(|event| event["event"] == "acquired").unwrap()["token"].as_str().unwrap().parse().unwrap()
}

#[test]
fn min_hold_hides_no_loss_while_the_command_ran() {
    let store = Store::new();
    // No renewal tells of it before the command ends.
    let mut run = store.start(&["run", "a", "--json", "-t", "5m", "--min-hold", "10m", "--", "cat"]);
    run.event("started");
    store.break_lock("a", run_token(&run), Evict::Now);
    assert_eq!(run.finish(), 79);
    assert_eq!(run.events(), ["acquired", "started", "lost", "exited"]);
}

#[test]
fn min_hold_is_over_when_the_lock_is_lost() {
    let store = Store::new();
    let mut run = store.start(&["run", "a", "--json", "-t", "6s", "--min-hold", "10m", "--", "sleep", "1000"]);
    run.event("started");
    store.break_lock("a", run_token(&run), Evict::Mark);
    assert_eq!(run.finish(), 79);
    let events = run.events();
    assert_eq!(events.iter().filter(|name| *name == "lost").count(), 1, "{events:?}");
}

#[test]
fn max_hold_ends_the_command() {
    let store = Store::new();
    let began = Instant::now();
    // It outlives its ttl, so it is renewed, and is lost all the same.
    let script = "trap 'echo ending; exit 0' TERM; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3s", "--max-hold", "4s"], script));
    let lost = run.event("lost");
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!((&lost["reason"], &lost["signal"]), (&"max_hold".into(), &"TERM".into()));
    assert_eq!(run.line(), "ending");
    assert_eq!(run.finish(), 79);
    // It was given back while it could still be believed in.
    assert_eq!(run.events(), ["acquired", "started", "lost", "released", "exited"]);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn max_hold_kills_what_does_not_end() {
    let store = Store::new();
    let script = "trap '' TERM; while :; do date +%s%N > beat; sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-k", "4s", "--max-hold", "2s"], script));
    run.event("started");
    let mut next = store.queue(&sh(&["run", "a"], "date +%s%N > granted"), "a", 0);
    run.event("lost");
    let lost = Instant::now();
    assert_eq!(run.finish(), 79);
    assert!(lost.elapsed() >= Duration::from_secs(2), "{:?}", lost.elapsed());
    assert_eq!(next.finish(), 0);
    let time = |name: &str| text(store.path(name)).trim().parse::<u128>().unwrap_or(0);
    let (beat, granted) = (time("beat"), time("granted"));
    assert!(beat < granted, "beat at {beat}, granted at {granted}");
}

#[test]
fn max_hold_with_ignore_is_only_an_event() {
    let store = Store::new();
    let mut run =
        store.start(&sh(&["run", "a", "--json", "--max-hold", "300ms", "--on-lost", "ignore"], "cat; exit 4"));
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"max_hold".into(), &Value::Null));
    assert_eq!(run.finish(), 4);
}

#[test]
fn exit_64_is_a_hold_that_cannot_be() {
    let store = Store::new();
    for args in [&["--max-hold", "0"][..], &["--min-hold", "2s", "--max-hold", "1s"]] {
        let output = store.output(&[&["run", "a"], args, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(stderr(&output).contains("Try: "), "{}", stderr(&output));
    }
    assert_eq!(store.code(&["run", "a", "--min-hold", "100ms", "--max-hold", "100ms", "--", "true"]), 0);
}
