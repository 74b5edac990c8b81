//! `--shared` and `--permits`: locks that several hold at a time.

use serde_json::{Value, json};

use crate::support::{Process, Store, events, sh, stderr, stdout, waiters};

/// Holds the lock in this way until the process is finished.
fn hold(store: &Store, args: &[&str]) -> Process {
    let mut holder = store.start(&[&["run", "--json"], args, &["--", "cat"]].concat());
    holder.event("started");
    holder
}

fn tries(store: &Store, args: &[&str]) -> i32 {
    store.code(&[&["run", "-n"], args, &["--", "true"]].concat())
}

#[test]
fn shared_runs_run_together_and_meet_those_who_want_the_lock_alone() {
    let store = Store::new();
    let mut readers = [hold(&store, &["a", "-s"]), hold(&store, &["a", "--shared"])];
    assert_eq!(tries(&store, &["a", "-s"]), 0);
    assert_eq!(tries(&store, &["a"]), 75);
    let mut writer = store.queue(&["run", "a", "--", "true"], "a", 0);
    // First come, first served: no claim overtakes the waiter.
    assert_eq!(tries(&store, &["a", "-s"]), 75);
    for reader in &mut readers {
        assert_eq!(reader.finish(), 0);
    }
    assert_eq!(writer.finish(), 0);
    let _alone = hold(&store, &["a"]);
    assert_eq!(tries(&store, &["a", "-s"]), 75);
}

#[test]
fn permits_are_shared_out_and_no_more_of_them() {
    let store = Store::new();
    let mut one = hold(&store, &["a", "--permits", "3"]);
    let _two = hold(&store, &["a", "--permits", "2/3"]);
    assert_eq!(tries(&store, &["a", "--permits", "3"]), 75);
    assert_eq!(one.finish(), 0);
    assert_eq!(tries(&store, &["a", "--permits", "2/3"]), 75);
    assert_eq!(tries(&store, &["a", "--permits", "1/3"]), 0);
}

#[test]
fn mode_and_sequencer_say_how_a_lock_is_held() {
    let store = Store::new();
    for (flags, mode, letter) in [
        (&[][..], "exclusive", "x"),
        (&["--shared"], "shared", "s"),
        (&["--permits", "5"], "permits", "p1"),
        (&["--permits", "2/5"], "permits", "p2"),
    ] {
        let script = "echo $LOCKKEEPER_MODE; echo $LOCKKEEPER_SEQUENCER; echo $LOCKKEEPER_FENCING_TOKEN; cat";
        let mut run = store.start(&sh(&[&["run", "a", "--json"], flags].concat(), script));
        let acquired = run.event("acquired");
        let sequencer = acquired["sequencer"].as_str().unwrap().to_owned();
        let token = acquired["token"].as_str().unwrap();
        assert_eq!(acquired["mode"], mode);
        assert_eq!(sequencer, format!("lk1.{letter}.{token}.a"));
        assert_eq!([run.line(), run.line(), run.line()], [mode, &sequencer, token]);
        assert_eq!(stdout(&store.output(&["check", &sequencer])), "valid\n");
        assert_eq!(run.finish(), 0);
        assert_eq!(stdout(&store.output(&["check", &sequencer])), "stale\n");
    }
}

#[test]
fn several_names_are_all_held_in_the_same_way() {
    let store = Store::new();
    let mut shared = hold(&store, &["b", "a", "-s"]);
    for name in ["a", "b"] {
        assert_eq!(tries(&store, &[name, "-s"]), 0, "{name}");
        assert_eq!(tries(&store, &[name]), 75, "{name}");
    }
    let mut permits = store.start(&["run", "--json", "d", "c", "--permits", "2/3", "--", "env"]);
    for name in ["d", "c"] {
        let acquired = permits.event("acquired");
        assert_eq!((&acquired["lock"], &acquired["mode"]), (&name.into(), &"permits".into()));
        assert!(acquired["sequencer"].as_str().unwrap().starts_with("lk1.p2."), "{acquired}");
    }
    assert_eq!(permits.finish(), 0);
    assert!(permits.lines().contains(&"LOCKKEEPER_MODE=permits".to_owned()));
    assert_eq!(shared.finish(), 0);
    // A name that is typed twice counts once, and takes its permits once.
    assert_eq!(tries(&store, &["c", "c", "--permits", "2/3"]), 0);
}

#[test]
fn exit_78_is_another_kind_of_lock_than_others_use() {
    let store = Store::new();
    let mut holder = hold(&store, &["a", "--permits", "3"]);
    for args in [&["--shared"][..], &[]] {
        for command in
            [&["run", "a"][..], &["run", "a", "-n"], &["acquire", "a", "--handle-file", "h"]]
        {
            let behind: &[&str] = if command[0] == "run" { &["--", "true"] } else { &[] };
            let output = store.output(&[command, args, behind].concat());
            let printed = stderr(&output);
            assert_eq!(output.status.code(), Some(78), "{command:?} {args:?}: {printed}");
            assert!(
                printed.contains("lock \"a\"")
                    && printed.contains(
                        "others use it as a semaphore, this is a mutex or read-write lock"
                    ),
                "{printed}"
            );
            assert!(printed.contains("Try: ") && printed.lines().count() == 1, "{printed}");
        }
    }
    assert_eq!(holder.finish(), 0);
    // When the lock is unused, the next claim sets its kind.
    let mut mutex = hold(&store, &["a"]);
    let output = store.output(&["run", "a", "--permits", "2", "--", "true"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("this is a semaphore"), "{}", stderr(&output));
    assert_eq!(mutex.finish(), 0);
    assert!(!store.path("h").exists());
}

#[test]
fn the_smallest_number_of_permits_of_those_who_hold_counts() {
    let store = Store::new();
    let mut small = hold(&store, &["p", "--permits", "2/3"]);
    let mut large = hold(&store, &["p", "--permits", "1/5"]);
    for share in ["1/5", "5", "1/3"] {
        assert_eq!(
            tries(&store, &["p", "--permits", share]),
            75,
            "{share}: three of three are taken"
        );
    }
    let lock = store.inspect("p");
    assert_eq!((&lock["capacity"], &lock["holders"][1]["capacity"]), (&json!(3), &json!(5)));
    let text = stdout(&store.output(&["inspect", "p"]));
    for part in ["permits     3 of 3 taken", "  2 permits  ", "  1 of 5 permits  "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(small.finish(), 0);
    assert_eq!(store.inspect("p")["capacity"], 5);
    assert_eq!(tries(&store, &["p", "--permits", "4/5"]), 0);
    assert_eq!(tries(&store, &["p", "--permits", "1"]), 75, "its own number is exceeded");
    assert_eq!(large.finish(), 0);
}

#[test]
fn exit_64_is_a_share_that_nobody_can_have() {
    let store = Store::new();
    for (permits, remedy) in [
        ("0", "Try: 5 for one of five, or 2/5 for two of them"),
        ("x", "Try: 5 for one of five, or 2/5 for two of them"),
        ("-1", "Try: 5 for one of five, or 2/5 for two of them"),
        ("0/3", "Try: 5 for one of five, or 2/5 for two of them"),
        ("3/2", "Try: at most 2/2"),
        ("2147483649", "Try: at most 2147483648"),
        ("99999999999", "Try: at most 2147483648"),
    ] {
        let permits = format!("--permits={permits}");
        for command in [
            &["run", "a", &permits, "--", "true"][..],
            &["acquire", "a", &permits, "--handle-file", "h"],
        ] {
            let output = store.output(command);
            let printed = stderr(&output);
            assert_eq!(output.status.code(), Some(64), "{printed}");
            assert!(
                printed.trim_end().ends_with(remedy) && printed.lines().count() == 1,
                "{printed}"
            );
            assert_eq!(printed.matches("Try: ").count(), 1, "{printed}");
        }
    }
    assert_eq!(tries(&store, &["a", "--permits", "2147483648/2147483648"]), 0);
}

#[test]
fn exit_64_is_shared_with_permits_and_either_with_elect() {
    let store = Store::new();
    for command in [
        &["run", "a", "--shared", "--permits", "2", "--", "true"][..],
        &["acquire", "a", "-s", "--permits=2"],
    ] {
        let output = store.output(command);
        assert_eq!(output.status.code(), Some(64), "{command:?}");
        assert!(stderr(&output).contains("'--permits <[K/]N>'"), "{}", stderr(&output));
    }
    for flag in ["--shared", "--permits=2", "-n"] {
        assert_eq!(store.code(&["elect", "a", flag, "--", "true"]), 64, "{flag}");
    }
}

#[test]
fn inspect_and_list_show_how_it_is_held_and_wanted() {
    let store = Store::new();
    let _permits = hold(&store, &["p", "--permits", "2/3"]);
    let _waiter = store.queue(&["run", "p", "--permits", "3/3", "--", "true"], "p", 0);
    let lock = store.inspect("p");
    assert_eq!((&lock["mode"], &lock["capacity"]), (&json!("permits"), &json!(3)));
    assert_eq!(
        (&lock["holders"][0]["permits"], &lock["waiters"][0]["permits"]),
        (&json!(2), &json!(3))
    );
    let text = stdout(&store.output(&["inspect", "p"]));
    for part in ["permits     2 of 3 taken", "  2 permits  ", "  3 permits  "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let _readers = [hold(&store, &["r", "-s"]), hold(&store, &["r", "-s"])];
    let _writer = store.queue(&["run", "r", "--", "true"], "r", 0);
    let lock = store.inspect("r");
    assert_eq!((&lock["mode"], &lock["capacity"]), (&json!("shared"), &Value::Null));
    assert_eq!(
        (&lock["holders"][1]["mode"], &lock["holders"][1]["permits"]),
        (&json!("shared"), &Value::Null)
    );
    let text = stdout(&store.output(&["inspect", "r"]));
    assert!(text.contains("mode        shared\n") && !text.contains("permit"), "{text}");
    assert_eq!(
        (text.matches("  shared  ").count(), text.matches("  exclusive  ").count()),
        (2, 1),
        "{text}"
    );
    let list = stdout(&store.output(&["list"]));
    let rows: Vec<&str> = list.lines().collect();
    assert!(rows[1].starts_with("p     permits  1        1  "), "{list}");
    assert!(rows[2].starts_with("r     shared   2        1  "), "{list}");
}

#[test]
fn watch_reports_each_holder_of_a_shared_lock() {
    let store = Store::new();
    let mut first = hold(&store, &["--owner", "one", "a", "-s"]);
    let watch = store.start(&["watch", "--json", "a"]);
    let printed = || {
        let change: Value = serde_json::from_str(&watch.line()).unwrap();
        [change["event"].clone(), change["owner"].clone()]
    };
    assert_eq!(printed(), ["held", "one"]);
    let mut second = hold(&store, &["--owner", "two", "a", "-s"]);
    assert_eq!(printed(), ["held", "two"]);
    assert_eq!(first.finish(), 0);
    assert_eq!(printed(), ["left", "one"]);
    assert_eq!(second.finish(), 0);
    assert_eq!(printed(), ["free", "two"]);
}

#[test]
fn acquire_renew_and_release_of_shared_locks_and_permits() {
    let store = Store::new();
    for (flags, mode, letter, others, others_code) in [
        (&["--shared"][..], "shared", "s", &["-s"][..], 0),
        (&["-s"], "shared", "s", &[], 75),
        (&["--permits", "2/3"], "permits", "p2", &["--permits", "3"], 0),
        (&["--permits", "2/3"], "permits", "p2", &["--permits", "2/3"], 75),
    ] {
        let output =
            store.output(&[&["acquire", "a", "--json", "--handle-file", "h"], flags].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["mode"], mode);
        let sequencer = format!("lk1.{letter}.{}.a", printed["token"].as_str().unwrap());
        assert_eq!(printed["sequencer"], sequencer);
        assert_eq!(store.code(&["check", &sequencer]), 0);
        assert_eq!(store.inspect("a")["mode"], mode);
        assert_eq!(tries(&store, &[&["a"], others].concat()), others_code, "{others:?}");
        assert_eq!(store.code(&["renew", "--handle-file", "h"]), 0);
        assert_eq!(store.code(&["check", &sequencer]), 0);
        assert_eq!(store.code(&["release", "--handle-file", "h"]), 0);
        assert_eq!(store.inspect("a")["state"], "free");
    }
}

#[test]
fn a_killed_reader_frees_its_share() {
    let store = Store::new();
    // Some stores notice the end of the lease only.
    let mut killed = hold(&store, &["a", "-s", "--ttl", "10s"]);
    let mut other = hold(&store, &["a", "-s"]);
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    store.inspect_until("a", |lock| lock["holders"].as_array().unwrap().len() == 1);
    let mut writer = store.queue(&["run", "a", "--", "true"], "a", 0);
    assert_eq!(other.finish(), 0);
    assert_eq!(writer.finish(), 0);
    assert_eq!(waiters(&store.inspect("a")), 0);
}

#[test]
fn event_busy_is_reported_for_a_share_too() {
    let store = Store::new();
    let _holder = hold(&store, &["--owner", "one", "a", "--permits", "2/2"]);
    let output = store.output(&["run", "a", "--permits", "2", "--json", "-n", "--", "true"]);
    let busy = events(&stderr(&output)).remove(0);
    assert_eq!((&busy["event"], &busy["holder"]), (&"busy".into(), &"one".into()));
}
