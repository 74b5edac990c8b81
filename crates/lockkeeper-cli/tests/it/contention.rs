//! Many at once.

use std::fs;
use std::thread;

use crate::support::{Store, sh, stderr, text};

#[test]
fn eight_processes_lose_no_increment() {
    const PROCESSES: usize = 8;
    const EACH: usize = 25;
    let store = Store::new();
    fs::write(store.path("number"), "0").unwrap();
    let increment =
        "n=$(cat number); echo $((n + 1)) > number; echo $LOCKKEEPER_FENCING_TOKEN >> tokens";
    thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let output = store.output(&sh(&["run", "counter"], increment));
                    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
                }
            });
        }
    });
    assert_eq!(text(store.path("number")).trim(), (PROCESSES * EACH).to_string());
    let tokens: Vec<u64> =
        text(store.path("tokens")).lines().map(|token| token.parse().unwrap()).collect();
    assert_eq!(tokens.len(), PROCESSES * EACH);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn waiters_are_served_in_order() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let waiters: Vec<_> = (0..6)
        .map(|i| {
            let serve = format!("echo {i} >> served");
            store.queue(&sh(&["run", "a"], &serve), "a", i)
        })
        .collect();
    assert_eq!(holder.finish(), 0);
    for mut waiter in waiters {
        assert_eq!(waiter.finish(), 0, "{}", waiter.rest());
    }
    assert_eq!(text(store.path("served")), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn a_waiter_that_leaves_does_not_hold_up_the_next() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut leaves = store.queue(&["run", "a", "--", "true"], "a", 0);
    let mut stays = store.queue(&["run", "a", "--", "true"], "a", 1);
    leaves.signal(rustix::process::Signal::TERM);
    assert_eq!(leaves.finish(), 143);
    assert_eq!(holder.finish(), 0);
    assert_eq!(stays.finish(), 0, "{}", stays.rest());
}
