//! A run inside a run: only a run that would wait for itself is refused.

use std::process::Output;

use crate::support::{Store, binary, code_of, sh, stderr, stdout};

/// `OUTER -- lockkeeper INNER -- true` on one store. `PROGRAM` is replaced by the program, for
/// deeper nestings.
fn nested(store: &Store, outer: &[&str], inner: &str) -> Output {
    let inner = format!("PROGRAM {inner}").replace("PROGRAM", binary().to_str().unwrap());
    store.command(&sh(outer, &inner)).output().unwrap()
}

#[track_caller]
fn assert_refused(output: &Output, name: &str) {
    let printed = stderr(output);
    assert_eq!(code_of(output.status), 64, "{printed}");
    let expected = format!("lock {name:?}: the outer run holds the lock");
    assert!(printed.contains(&expected) && printed.contains("Try: "), "{printed}");
}

#[track_caller]
fn assert_runs(output: &Output) {
    assert_eq!(
        (code_of(output.status), stderr(output).as_str(), stdout(output).as_str()),
        (0, "", "ran\n")
    );
}

#[test]
fn a_run_inside_a_run_of_the_same_lock_exits_with_64_at_once() {
    let store = Store::new();
    // The run would wait for ever, or up to its limit.
    assert_refused(&nested(&store, &["run", "m"], "run m -w 5s -- echo ran"), "m");
    assert_refused(&nested(&store, &["run", "m"], "run -w forever m -- echo ran"), "m");
    assert_refused(&nested(&store, &["run", "a", "m"], "run -w 5s b m a -- echo ran"), "m");
    assert_refused(&nested(&store, &["run", "m"], "run -w 5s --unfair m -- echo ran"), "m");
    assert_refused(&nested(&store, &["run", "m"], "elect -w 5s m -- echo ran"), "m");
    assert_refused(
        &nested(&store, &["elect", "--restart", "never", "m"], "run -w 5s m -- echo ran"),
        "m",
    );
    assert_refused(&nested(&store, &["run", "m"], "acquire -w 5s m --handle-file h"), "m");
}

/// Another round would fail in the same way.
#[test]
fn a_leader_whose_command_wants_its_lock_ends_with_64_at_once() {
    let store = Store::new();
    for inner in ["elect m -- echo ran", "run m -- echo ran", "acquire m --handle-file h"] {
        let output = nested(&store, &["elect", "m"], inner);
        assert_refused(&output, "m");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn a_lock_of_any_run_around_is_refused() {
    let store = Store::new();
    let innermost = |names: &str| {
        let inner = format!("run middle -- PROGRAM run -w 5s {names} -- echo ran");
        nested(&store, &["run", "outer", "x"], &inner)
    };
    assert_runs(&innermost("inner other"));
    for name in ["middle", "outer", "x"] {
        assert_refused(&innermost(&format!("inner {name}")), name);
    }
}

#[test]
fn a_lock_that_is_named_in_another_way_is_the_same_lock() {
    let store = Store::new();
    let outer = ["run", "--prefix", "p/", "m"];
    assert_refused(&nested(&store, &outer, "--prefix '' run -w 5s p/m -- echo ran"), "p/m");
    let url = store.url();
    let elsewhere = format!("-S '{url}?prefix=p/&ttl=9s' --prefix p/ run -w 5s m -- echo ran");
    assert_refused(&nested(&store, &outer, &elsewhere), "m");
}

#[test]
fn another_lock_of_the_same_name_is_no_error() {
    let store = Store::new();
    assert_runs(&nested(&store, &["run", "--prefix", "p/", "m"], "--prefix '' run m -- echo ran"));
    let other = format!("-S file:{} run m -- echo ran", store.path("other.db").display());
    assert_runs(&nested(&store, &["run", "m"], &other));
}

#[test]
fn readers_and_permits_that_fit_are_no_error_and_others_are() {
    let store = Store::new();
    assert_runs(&nested(&store, &["run", "-s", "m"], "run -s m -- echo ran"));
    assert_refused(&nested(&store, &["run", "-s", "m"], "run -w 5s m -- echo ran"), "m");
    assert_refused(&nested(&store, &["run", "m"], "run -w 5s -s m -- echo ran"), "m");
    let two = ["run", "--permits", "2/3", "p"];
    assert_runs(&nested(&store, &two, "run --permits 3 p -- echo ran"));
    assert_refused(&nested(&store, &two, "run -w 5s --permits 2/3 p -- echo ran"), "p");
    let third = "run --permits 3 p -- PROGRAM run -w 5s --permits 3 p -- echo ran";
    assert_refused(&nested(&store, &two, third), "p");
}

#[test]
fn who_does_not_wait_learns_that_the_lock_is_busy() {
    let store = Store::new();
    for inner in ["run -n m -- echo ran", "run -w 0 m -- echo ran", "acquire -n m --handle-file h"]
    {
        let output = nested(&store, &["run", "m"], inner);
        assert_eq!(code_of(output.status), 75, "{inner}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("lock \"m\": not acquired; held by "),
            "{}",
            stderr(&output)
        );
    }
    // Twice in one line is once.
    assert_runs(&nested(&store, &["run", "x"], "run m m -- echo ran"));
}

#[test]
fn a_process_left_by_an_ended_run_waits_as_others_do() {
    let store = Store::new();
    let before = stdout(&store.output(&["run", "m", "--", "printenv", "LOCKKEEPER_SEQUENCERS"]));
    let mut holder = store.hold("m");
    let mut command = store.command(&["run", "m", "-w", "50s", "--", "true"]);
    let mut waiter =
        crate::support::Process::start(command.env("LOCKKEEPER_SEQUENCERS", before.trim()));
    store.inspect_until("m", |lock| crate::support::waiters(lock) == 1);
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0);
}

/// The run that has ended holds nothing; only the store keeps the lock for the rest of its minimum
/// hold.
#[test]
fn a_lock_that_an_ended_run_left_kept_is_waited_for() {
    let store = Store::new();
    let outer = ["run", "m", "--min-hold", "4s", "--", "printenv", "LOCKKEEPER_SEQUENCERS"];
    let before = stdout(&store.output(&outer));
    assert_eq!(store.inspect("m")["state"], "kept");
    let mut command = store.command(&["run", "m", "-w", "50s", "--", "echo", "ran"]);
    let output = command.env("LOCKKEEPER_SEQUENCERS", before.trim()).output().unwrap();
    assert_eq!(
        (code_of(output.status), stdout(&output).as_str()),
        (0, "ran\n"),
        "{}",
        stderr(&output)
    );
}

/// The one between waits for the run around, and the run inside would wait for the one between.
#[test]
fn a_wait_behind_a_waiter_for_the_outer_run_exits_with_64() {
    let store = Store::new();
    for (outer, between, inner) in [
        (["-s", "m"], ["-w", "40s"], "-s m"),
        (["--permits", "1/2"], ["--permits", "2/2"], "--permits 1/2 m"),
    ] {
        let script = format!("read -r _; {} run {inner} -- echo ran", binary().display());
        let name = if outer[1] == "m" { &outer[..] } else { &[outer[0], outer[1], "m"] };
        let mut run = store.start(&sh(&[&["run", "--json"], name].concat(), &script));
        run.event("started");
        let mut waiter =
            store.queue(&[&["run", "m"], &between[..], &["--", "true"]].concat(), "m", 0);
        assert_eq!(run.finish(), 64, "{outer:?}: {}", run.rest());
        run.rest();
        assert!(
            run.seen.iter().any(|line| line.contains("the outer run holds the lock")),
            "{:?}",
            run.seen
        );
        assert_eq!(waiter.finish(), 0);
    }
}

/// The waiter between may give up before, and a limit ends the wait in any case.
#[test]
fn a_limited_wait_behind_a_waiter_for_the_outer_run_ends_by_itself() {
    let store = Store::new();
    let script = format!("read -r _; {} run -w 1s -s m -- echo ran", binary().display());
    let mut run = store.start(&sh(&["run", "--json", "-s", "m"], &script));
    run.event("started");
    let mut waiter = store.queue(&["run", "m", "-w", "40s", "--", "true"], "m", 0);
    assert_eq!(run.finish(), 75, "{}", run.rest());
    assert_eq!(waiter.finish(), 0);
}

/// A holder that is not around this run leaves, and its capacity with it: it makes no wait endless.
#[test]
fn another_holders_smaller_capacity_is_no_reason_to_refuse() {
    let store = Store::new();
    let mut other = store.start(&["run", "--json", "--permits", "1/3", "m", "--", "cat"]);
    other.event("started");
    let script = format!("read -r _; {} run --permits 1/10 m -- echo ran", binary().display());
    let mut run = store.start(&sh(&["run", "--json", "--permits", "2/10", "m"], &script));
    run.event("started");
    run.close_stdin();
    store.inspect_until("m", |lock| crate::support::waiters(lock) == 1);
    assert_eq!(other.finish(), 0);
    assert_eq!(run.finish(), 0, "{}", run.rest());
}

/// The waiter ahead waits for other claims, or for none: that wait ends by itself.
#[test]
fn a_wait_behind_somebody_who_waits_for_others_is_no_error() {
    let store = Store::new();
    let mut other = store.start(&["run", "--json", "-s", "m", "--", "cat"]);
    other.event("started");
    let script = format!("read -r _; {} run -w 30s -s free -- echo ran", binary().display());
    let mut run = store.start(&sh(&["run", "--json", "-s", "m"], &script));
    run.event("started");
    let mut waiter = store.queue(&["run", "m", "-w", "40s", "--", "true"], "m", 0);
    assert_eq!(run.finish(), 0, "{}", run.rest());
    assert_eq!(other.finish(), 0);
    assert_eq!(waiter.finish(), 0);
}
