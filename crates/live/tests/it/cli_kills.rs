//! R8 on a store that does not see the end of a process: the next holder waits for the ttl.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Store, eventually, is_alive, sh, text};

#[test]
fn r8_after_a_kill_the_command_dies_and_the_next_waits_for_the_ttl() {
    let store = Store::new();
    let beat = "trap '' TERM HUP; echo $$; while :; do date +%s%N >> beats; sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "9s"], beat));
    let command = run.line();
    run.event("started");
    let mut next = store.queue(&sh(&["run", "a"], "date +%s%N > granted"), "a", 0);
    run.signal(Signal::KILL);
    let killed = Instant::now();
    eventually("the end of the command", || !is_alive(&command));
    let dead = killed.elapsed();
    assert!(dead < Duration::from_secs(5), "{dead:?}");
    assert_eq!(next.finish(), 0, "{}", next.rest());
    // The last renewal was a third of the ttl ago at most.
    assert!(killed.elapsed() > Duration::from_secs(4), "{:?}", killed.elapsed());
    let time = |text: &str| text.trim().parse::<u128>().unwrap();
    let beats = text(store.path("beats"));
    let last = beats.lines().filter(|line| !line.is_empty()).map(time).max().unwrap();
    let granted = time(&text(store.path("granted")));
    assert!(last < granted, "beat at {last}, granted at {granted}");
}

#[test]
fn r8_a_run_stopped_for_longer_than_the_ttl_leaves_no_second_command() {
    let store = Store::new();
    let beat = "trap '' TERM; echo $$; while :; do date +%s%N >> beats; sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3s"], beat));
    let command = run.line();
    run.event("started");
    let mut next = store.queue(&sh(&["run", "a"], "date +%s%N > granted"), "a", 0);
    run.signal(Signal::STOP);
    assert_eq!(next.finish(), 0, "{}", next.rest());
    assert!(!is_alive(&command));
    run.signal(Signal::CONT);
    assert_eq!(run.finish(), 79);
    let time = |text: &str| text.trim().parse::<u128>().unwrap();
    let last =
        text(store.path("beats")).lines().filter(|line| !line.is_empty()).map(time).max().unwrap();
    assert!(last < time(&text(store.path("granted"))), "beat at {last}");
}

#[test]
fn a_server_outage_longer_than_the_ttl_ends_the_command_in_time() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "3s"], "trap '' TERM; echo $$; exec sleep 60"));
    let command = run.line();
    run.event("started");
    store.with_server(|server| server.kill()).unwrap();
    let killed = Instant::now();
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"expired".into(), &"TERM".into()));
    eventually("the end of the command", || !is_alive(&command));
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!(run.finish(), 79);
    let events = run.events();
    let after_the_loss = events.iter().skip_while(|event| *event != "lost");
    assert_eq!(after_the_loss.collect::<Vec<_>>(), ["lost", "exited"], "{events:?}");
    store.with_server(|server| server.restart()).unwrap();
}
