//! R3 and R4 at every moment of a run. The wait in the queue and the command itself are in `rules`.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Process, Store, catches, reaped, sh};

const ENDING: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// A run that cannot reach its store yet.
fn connecting(store: &Store) -> Process {
    let run =
        store.start(&["run", "a", "--json", "--connect-timeout", "5m", "--", "touch", "started"]);
    catches(&run.pid().to_string(), Signal::WINCH);
    run
}

#[test]
fn r3_a_signal_while_connecting_ends_the_run() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let _outage = store.outage();
    for signal in ENDING {
        let mut run = connecting(&store);
        run.signal(signal);
        // The run had minutes left to connect, and the store is still away.
        assert_eq!(run.wait().signal(), Some(signal.as_raw()), "{signal:?}");
        assert_eq!(run.events(), ["exited"]);
    }
    assert!(!store.path("started").exists());
}

#[test]
fn r3_a_window_that_changes_its_size_does_not_end_the_connecting() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let outage = store.outage();
    let mut run = connecting(&store);
    run.signal(Signal::WINCH);
    drop(outage);
    assert_eq!(run.finish(), 0);
    assert!(store.path("started").exists());
}

#[test]
fn r3_a_signal_while_the_store_is_away_leaves_the_line() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut took = Vec::new();
    for signal in ENDING {
        let mut waiter = store.queue(&["run", "a", "--json", "--", "touch", "started"], "a", 0);
        waiter.event("queued");
        let outage = store.outage();
        let sent = Instant::now();
        waiter.signal(signal);
        assert_eq!(waiter.wait().signal(), Some(signal.as_raw()), "{signal:?}");
        took.push(sent.elapsed());
        drop(outage);
        store.inspect_until("a", |lock| lock["waiters"].as_array().unwrap().is_empty());
    }
    // A release that does not end the program is tried for 3 s each time; a busy machine is slow
    // now and then.
    assert!(took.iter().min().is_some_and(|took| *took < Duration::from_millis(2800)), "{took:?}");
    assert_eq!(holder.finish(), 0);
    assert!(!store.path("started").exists());
}

#[test]
fn r4_a_signal_between_grant_and_start_ends_the_run_or_reaches_the_command() {
    let store = Store::new();
    for signal in ENDING.repeat(3) {
        let mut run = store.start(&["run", "a", "--json", "--", "sleep", "60"]);
        run.event("acquired");
        run.signal(signal);
        assert_eq!(run.wait().signal(), Some(signal.as_raw()), "{signal:?}");
        assert_eq!(run.events().last().unwrap(), "exited");
        assert_eq!(store.inspect("a")["state"], "free", "{signal:?}");
    }
    let mut run = store.start(&["run", "a", "--json", "--", "true"]);
    run.event("acquired");
    run.signal(Signal::WINCH);
    assert_eq!(run.finish(), 0);
}

#[test]
fn r4_a_signal_during_the_release_changes_no_code() {
    let store = Store::new();
    for signal in ENDING {
        let mut run = store.start(&sh(&["run", "a", "--json"], "echo ready; cat; exit 4"));
        assert_eq!(run.line(), "ready");
        let pid = run.event("started")["pid"].to_string();
        let outage = store.outage();
        run.close_stdin();
        reaped(&pid);
        run.signal(Signal::WINCH);
        run.signal(signal);
        assert_eq!(run.wait().code(), Some(4), "{signal:?}");
        let rest = run.rest();
        let reason =
            format!("the release is not confirmed (interrupted by signal {})", signal.as_raw());
        assert!(rest.contains(&reason), "{signal:?}: {rest}");
        drop(outage);
        store.inspect_until("a", |lock| lock["state"] == "free");
    }
}
