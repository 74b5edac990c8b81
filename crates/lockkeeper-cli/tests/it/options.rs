//! The options of `run` for the loss of a lock and for the length of a hold.

use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use serde_json::Value;

use crate::support::{Store, sh, stderr};

#[test]
fn on_lost_ignore_leaves_the_command_and_its_code_alone() {
    let store = Store::new();
    let mut run = store.start(&sh(
        &["run", "a", "--json", "-t", "1s", "--on-lost", "ignore"],
        "echo ready; cat; exit 4",
    ));
    assert_eq!(run.line(), "ready");
    let outage = store.outage();
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"expired".into(), &Value::Null));
    drop(outage);
    assert_eq!(run.finish(), 4);
    let events = run.events();
    assert_eq!(events.iter().filter(|name| *name == "lost").count(), 1, "{events:?}");
    assert_eq!(events.last().unwrap(), "exited");
    assert!(run.seen.last().unwrap().contains("\"code\":4,\"cause\":\"child\""), "{:?}", run.seen);
}

#[test]
fn on_lost_ignore_leaves_the_command_alone_when_the_lock_is_broken() {
    let store = Store::new();
    let mut run = store.start(&sh(
        &["run", "a", "--json", "-t", "6s", "--on-lost", "ignore"],
        "echo ready; cat; exit 4",
    ));
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(run.line(), "ready");
    store.break_lock("a", token, Evict::Now);
    run.event("lost");
    // Another client has the lock while the command goes on.
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
    assert_eq!(run.finish(), 4);
}

#[test]
fn on_lost_ignore_holds_at_the_release_too() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "60s", "--on-lost", "ignore"], "cat; exit 4"));
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    run.event("started");
    store.break_lock("a", token, Evict::Now);
    assert_eq!(run.finish(), 4);
    assert_eq!(run.events(), ["acquired", "started", "lost", "exited"]);
}

#[test]
fn on_lost_kill_asks_nobody() {
    let store = Store::new();
    let ends_well = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run =
        store.start(&sh(&["run", "a", "--json", "-t", "3s", "--on-lost", "kill"], ends_well));
    assert_eq!(run.line(), "ready");
    let _outage = store.outage();
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"expired".into(), &"KILL".into()));
    assert_eq!(run.finish(), 79);
}

#[test]
fn kill_after_is_the_time_that_the_command_has_for_its_end() {
    let store = Store::new();
    // The lock is broken, so the lease does not determine the time.
    let mut run = store.start(&sh(
        &["run", "a", "--json", "-t", "15s", "-k", "2s"],
        "trap '' TERM; echo ready; while :; do sleep 0.02; done",
    ));
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(run.line(), "ready");
    store.break_lock("a", token, Evict::Mark);
    run.event("lost");
    let lost = Instant::now();
    assert_eq!(run.finish(), 79);
    let took = lost.elapsed();
    // The default would be 5 s; and the test may read the event late.
    assert!(took >= Duration::from_millis(500) && took < Duration::from_millis(4500), "{took:?}");
}

#[test]
fn kill_after_is_at_most_a_third_of_the_ttl() {
    let store = Store::new();
    for (args, limit) in
        [(&["-k", "11s"][..], "10s"), (&["-t", "3s", "--kill-after", "1001ms"], "1.0s")]
    {
        let output = store.output(&[&["run", "a"], args, &["--", "true"]].concat());
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{printed}");
        assert!(printed.contains(&format!("Try: at most {limit}")), "{printed}");
    }
    for args in [&["-k", "10s"][..], &["-t", "3s", "-k", "1s"], &["-k", "0"], &["-t", "300ms"]] {
        assert_eq!(store.code(&[&["run", "a"], args, &["--", "true"]].concat()), 0, "{args:?}");
    }
}

#[test]
fn on_lost_has_three_words() {
    let output = Store::new().output(&["run", "a", "--on-lost", "stop", "--", "true"]);
    assert_eq!(output.status.code(), Some(64));
    let printed = stderr(&output);
    assert!(["term", "kill", "ignore"].iter().all(|word| printed.contains(word)), "{printed}");
}
