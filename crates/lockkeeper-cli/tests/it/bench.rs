//! `bench`.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Process, Store, program, stderr, stdout};

fn report(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), ""),
        "{}",
        stdout(&output)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn in_memory(args: &[&str]) -> Value {
    report(program().args(["-S", "memory:", "bench", "--json"]).args(args))
}

#[test]
fn bench_measures_pairs_times_commands_and_fairness() {
    let store = Store::new();
    let report = report(&mut store.command(&["bench", "--seconds", "1", "--tasks", "4", "--json"]));
    let number = |path: &str| {
        report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {report}"))
    };
    assert!(number("/pairs") > 0.0 && number("/pairs_per_second") > 0.0);
    assert_eq!((number("/tasks"), number("/names"), number("/hold_ms")), (4.0, 1.0, 0.0));
    assert!(number("/seconds") >= 1.0 && report["interrupted"] == false);
    for what in ["acquire_us", "release_us", "handoff_us"] {
        let times =
            ["p50", "p99", "p99.9", "max"].map(|quantile| number(&format!("/{what}/{quantile}")));
        assert!(times[0] > 0.0 && times.is_sorted(), "{what}: {times:?}");
    }
    // With four tasks in the queue, a task waits for longer than its own claim takes.
    assert!(number("/acquire_us/p50") > number("/release_us/p50"));
    // Each pair is at least a claim and a withdrawal.
    assert!(number("/store_commands_per_pair/claim") >= 0.99, "{report}");
    assert!(number("/store_commands_per_pair/withdraw") >= 0.9, "{report}");
    assert!(number("/store_commands_per_pair/total") >= 1.9, "{report}");
    // The local queue serves in turn.
    assert!(number("/fairness/jain") > 0.5 && number("/fairness/jain") <= 1.0);
    assert!(
        number("/fairness/fewest_pairs") > 0.0
            && number("/fairness/most_pairs") <= number("/pairs")
    );
}

#[test]
fn a_bench_leaves_nothing_behind_and_meets_no_real_lock() {
    let store = Store::new();
    let _holder = store.hold("a");
    let mut bench = store.start(&[
        "bench",
        "--seconds",
        "60",
        "--tasks",
        "3",
        "--names",
        "2",
        "--hold",
        "20ms",
    ]);
    let names = || -> Vec<String> {
        let lines = stdout(&store.output(&["list", "--json"]));
        lines
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["lock"].as_str().unwrap().into()
            })
            .collect()
    };
    crate::support::eventually("the bench", || names().len() > 1);
    assert!(
        names().iter().all(|name| name == "a" || name.starts_with("lockkeeper-bench/")),
        "{:?}",
        names()
    );
    bench.signal(Signal::INT);
    assert_eq!(bench.finish(), 0);
    assert_eq!(names(), ["a"]);
}

#[test]
fn an_interrupted_bench_prints_its_results_so_far() {
    let store = Store::new();
    let mut bench = store.start(&["bench", "--seconds", "1h", "--tasks", "2", "--prefix", "p/"]);
    // The first lock that the test sees may be the lock of the warm-up.
    let mut tokens = BTreeSet::new();
    crate::support::eventually("the bench", || {
        let lock = stdout(&store.output(&["list", "--json", "p/lockkeeper-bench/"]));
        tokens.extend(
            serde_json::from_str::<Value>(&lock)
                .ok()
                .and_then(|lock| lock["last_token"].as_str().map(str::to_owned)),
        );
        tokens.len() > 3
    });
    bench.signal(Signal::INT);
    let text = printed(&bench, 7);
    assert_eq!(bench.finish(), 0, "{}", bench.rest());
    assert!(text.contains("interrupted: 2 tasks, 1 lock"), "{text}");
    for part in
        ["pairs", "per second", "acquire", "p99.9", "hand-off", "commands", "per pair", "fairness"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn printed(process: &Process, lines: usize) -> String {
    (0..lines).map(|_| process.line() + "\n").collect()
}

#[test]
fn a_bench_needs_no_store() {
    let report = in_memory(&["--seconds", "200ms"]);
    assert_eq!((report["tasks"].as_u64(), report["names"].as_u64()), (Some(64), Some(1)));
    assert!(report["pairs"].as_u64().unwrap() > 0, "{report}");
    // A lock for each task is never handed on.
    let alone = in_memory(&["--seconds", "200ms", "--tasks", "2", "--names", "2"]);
    assert_eq!(alone["handoff_us"], Value::Null);
    assert!(in_memory(&["--seconds", "0"])["pairs"].is_u64());
}

#[test]
fn a_lock_is_held_for_as_long_as_is_said() {
    let report = in_memory(&["--seconds", "300ms", "--tasks", "2", "--hold", "20ms"]);
    let (pairs, seconds) = (report["pairs"].as_f64().unwrap(), report["seconds"].as_f64().unwrap());
    // The last one may be cut short by the end.
    assert!(pairs >= 1.0 && pairs <= seconds / 0.02 + 2.0, "{report}");
}

#[test]
fn a_store_that_does_not_answer_ends_a_bench() {
    let store = Store::new();
    drop(store.hold("a"));
    let _outage = store.outage();
    assert_eq!(store.code(&["--connect-timeout", "300ms", "bench", "--seconds", "1"]), 69);
}

#[test]
fn what_cannot_be_measured_is_a_matter_of_usage() {
    let store = Store::new();
    for args in [["--tasks", "0"], ["--names", "0"], ["--seconds", "forever"], ["--hold", "x"]] {
        assert_eq!(store.code(&[&["bench"], &args[..]].concat()), 64, "{args:?}");
    }
}
