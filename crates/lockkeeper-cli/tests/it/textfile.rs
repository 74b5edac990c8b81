//! `--metrics-textfile`: figures of a run for the textfile collector of node exporter.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Store, sh, stderr, text};

/// The gauges of a lock, by name without the common prefix.
fn gauge(text: &str, name: &str) -> Option<f64> {
    let start = format!("lockkeeper_run_{name}{{lock=\"nightly\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).map(|value| value.parse().unwrap())
}

#[test]
fn a_runs_figures_are_there_during_and_after_its_hold() {
    let store = Store::new();
    let file = store.path("run.prom");
    let path = file.to_str().unwrap();
    let mut run = store
        .start(&sh(&["run", "nightly", "--metrics-textfile", path], "echo ready; read x; exit 3"));
    assert_eq!(run.line(), "ready");
    let held = text(&file);
    assert_eq!(gauge(&held, "held"), Some(1.0), "{held}");
    assert!(gauge(&held, "acquired_timestamp_seconds").unwrap() > 1.7e9);
    assert_eq!((gauge(&held, "lost"), gauge(&held, "exit_code")), (Some(0.0), None));
    // The user of node exporter may read the file.
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(run.finish(), 3);
    let over = text(&file);
    assert_eq!((gauge(&over, "held"), gauge(&over, "exit_code")), (Some(0.0), Some(3.0)), "{over}");
    assert!(
        gauge(&over, "hold_seconds").is_some() && gauge(&over, "end_timestamp_seconds").is_some()
    );
    for line in over.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split('{').next().unwrap();
        assert!(over.contains(&format!("# TYPE {name} gauge\n")), "{line}");
    }
}

#[test]
fn a_start_without_the_lock_leaves_the_holders_figures() {
    let store = Store::new();
    let file = store.path("run.prom");
    let path = file.to_str().unwrap();
    let mut run =
        store.start(&sh(&["run", "nightly", "--metrics-textfile", path], "echo ready; cat"));
    assert_eq!(run.line(), "ready");
    let held = text(&file);
    let again = ["run", "nightly", "--metrics-textfile", path, "--", "true"];
    assert_eq!(store.code(&[&again[..1], &["-n", "-E", "0"], &again[1..]].concat()), 0);
    assert_eq!(store.code(&[&again[..1], &["-w", "100ms"], &again[1..]].concat()), 75);
    assert_eq!(text(&file), held, "a start that found the lock busy");
    let waiter = store.queue(&again, "nightly", 0);
    assert_eq!(text(&file), held, "a start that waits");
    waiter.signal(Signal::TERM);
    assert_eq!(text(&file), held);
    assert_eq!(run.finish(), 0);
}

#[test]
fn a_failed_run_is_in_the_textfile_until_the_next_command() {
    let store = Store::new();
    let file = store.path("run.prom");
    let run = ["run", "--once-per", "1h", "nightly", "--metrics-textfile", file.to_str().unwrap()];
    assert_eq!(store.code(&sh(&run, "exit 3")), 3);
    let failed = text(&file);
    assert_eq!(gauge(&failed, "exit_code"), Some(3.0), "{failed}");
    assert_eq!(store.code(&sh(&run, "exit 0")), 0, "another start within the hour");
    assert_eq!(text(&file), failed);
}

#[test]
fn an_unwritable_textfile_is_an_error_before_the_command_begins() {
    let store = Store::new();
    let output = store.output(&[
        "run",
        "a",
        "--metrics-textfile",
        "/nowhere/run.prom",
        "--",
        "touch",
        "began",
    ]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        stderr(&output).contains("--metrics-textfile \"/nowhere/run.prom\": it cannot be written"),
        "{output:?}"
    );
    assert!(!store.path("began").exists());
}
