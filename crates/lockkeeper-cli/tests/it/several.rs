//! A run with several NAMEs.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lockkeeper::store::Evict;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Store, binary, events, sh, stderr, stdout, text, waiters};

/// Names and locks of the events, as `acquired b`.
fn printed(text: &str) -> Vec<String> {
    let word = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    events(text)
        .iter()
        .map(|event| format!("{} {}", word(event, "event"), word(event, "lock")))
        .collect()
}

#[test]
fn exit_64_is_more_names_than_a_variable_can_hold() {
    let store = Store::new();
    let names: Vec<String> = (0..600).map(|number| format!("{number:0>234}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _holder = store.hold(names[0]);
    let output = store.output(&[&["run"], &names[..], &["--", "true"]].concat());
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("600 NAMEs") && stderr(&output).contains("Try: fewer"),
        "{}",
        stderr(&output)
    );
    // As many as fit are no error.
    assert_eq!(store.code(&[&["run"], &names[1..400], &["--", "true"]].concat()), 0);
}

#[test]
fn exit_126_is_a_command_too_long_with_its_names_before_the_wait() {
    let store = Store::new();
    let names: Vec<String> = (0..260).map(|number| format!("{number:0>234}")).collect();
    let _holder = store.hold(&names[0]);
    let run = |count: usize, before: &str| {
        let names = names[260 - count..].join(" ");
        let shell = format!(
            "{before}; exec {} -S {} run -n {names} -- true",
            binary().display(),
            store.url()
        );
        Command::new("sh")
            .args(["-c", &shell])
            .env("LOCKKEEPER_CONFIG", "/dev/null")
            .output()
            .unwrap()
    };
    // The run would wait for the first of them.
    let output = run(260, "ulimit -s 512");
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(
        printed.contains("260 NAMEs included, and the limit is 131072.")
            && printed.contains("ulimit -s"),
        "{printed}"
    );
    assert_eq!(run(259, ":").status.code(), Some(0));
}

#[test]
fn run_of_several_names_holds_all_and_reports_in_typed_order() {
    let store = Store::new();
    let output = store.output(&["run", "--json", "b", "c", "a", "--", "env"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all = stderr(&output);
    let expected = [
        "acquired b",
        "acquired c",
        "acquired a",
        "started b",
        "released b",
        "released c",
        "released a",
    ];
    assert_eq!(printed(&all)[..7], expected);
    assert_eq!(printed(&all)[7..], ["exited b"]);
    let sequencers: Vec<String> = events(&all)[..3]
        .iter()
        .map(|event| event["sequencer"].as_str().unwrap().to_owned())
        .collect();
    // A value of several lines takes several lines.
    let env = stdout(&output);
    assert!(
        env.contains("\nLOCKKEEPER_LOCKS=b\nc\na\n")
            || env.starts_with("LOCKKEEPER_LOCKS=b\nc\na\n"),
        "{env}"
    );
    assert!(env.contains(&format!("LOCKKEEPER_SEQUENCERS={}\n", sequencers.join("\n"))), "{env}");
    assert!(env.contains("LOCKKEEPER_LOCK=b\n"), "{env}");
    assert!(env.contains(&format!("LOCKKEEPER_SEQUENCER={}\n", sequencers[0])), "{env}");
    let token = events(&all)[0]["token"].as_str().unwrap().to_owned();
    assert!(env.contains(&format!("LOCKKEEPER_FENCING_TOKEN={token}\n")), "{env}");
}

#[test]
fn all_are_held_while_the_command_runs() {
    let store = Store::new();
    let mut run = store.start(&["run", "--json", "b", "a", "--", "cat"]);
    run.event("started");
    for name in ["a", "b"] {
        assert_eq!(store.code(&["run", name, "-n", "--", "true"]), 75, "{name}");
    }
    assert_eq!(run.finish(), 0);
    for name in ["a", "b"] {
        assert_eq!(store.inspect(name)["state"], "free", "{name}");
    }
}

#[test]
fn a_name_that_is_typed_twice_counts_once() {
    let store = Store::new();
    let output = store.output(&[
        "run",
        "--json",
        "b",
        "a",
        "b",
        "--",
        "sh",
        "-c",
        "echo \"$LOCKKEEPER_LOCKS\"",
    ]);
    assert_eq!(stdout(&output), "b\na\n");
    assert_eq!(printed(&stderr(&output))[..3], ["acquired b", "acquired a", "started b"]);
}

#[test]
fn none_is_kept_when_one_is_busy() {
    let store = Store::new();
    let _holder = store.hold("b");
    for wait in ["0", "300ms"] {
        let output =
            store.output(&["run", "--json", "-w", wait, "c", "b", "a", "--", "touch", "started"]);
        assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
        let all = stderr(&output);
        let busy = events(&all).into_iter().find(|event| event["event"] == "busy").unwrap();
        assert_eq!(busy["lock"], "b");
        assert!(busy["holder"].is_string(), "{busy}");
        for name in ["a", "c"] {
            assert_eq!(store.inspect(name)["state"], "free", "{name}");
        }
    }
    assert!(!store.path("started").exists());
}

#[test]
fn one_wait_is_for_all_of_them() {
    let store = Store::new();
    let mut first = store.hold("a");
    let _second = store.hold("b");
    let mut run = store.queue(&["run", "--json", "-w", "8s", "a", "b", "--", "true"], "a", 0);
    // For the second lock alone the run would wait as long again.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(first.finish(), 0);
    let busy = run.event("busy");
    assert_eq!(busy["lock"], "b");
    let waited = busy["waited_ms"].as_u64().unwrap();
    assert!((8000..12_000).contains(&waited), "{waited}");
    assert_eq!(run.finish(), 75);
}

#[test]
fn places_in_line_are_reported_of_each() {
    let store = Store::new();
    let (mut first, mut second) = (store.hold("a"), store.hold("b"));
    let mut run = store.start(&["run", "--prefix", "", "--json", "b", "a", "--", "true"]);
    assert_eq!(run.event("queued")["lock"], "a");
    assert_eq!(first.finish(), 0);
    assert_eq!(run.event("queued")["lock"], "b");
    assert_eq!(second.finish(), 0);
    assert_eq!(run.finish(), 0);
}

#[test]
fn events_name_a_lock_as_it_was_typed() {
    let store = Store::new();
    let mut holder = store.start(&["run", "p/a", "--json", "--", "cat"]);
    holder.event("started");
    let mut run = store.start(&["run", "--prefix", "p/", "--json", "b", "a", "--", "true"]);
    assert_eq!(run.event("queued")["lock"], "a");
    assert_eq!(holder.finish(), 0);
    let acquired = run.event("acquired");
    assert_eq!(acquired["lock"], "b");
    assert!(acquired["sequencer"].as_str().unwrap().ends_with(".p%2Fb"), "{acquired}");
    assert_eq!(run.finish(), 0);
}

#[test]
fn the_loss_of_one_ends_the_command_and_names_it() {
    let store = Store::new();
    let mut run = store.start(&["run", "--json", "-t", "12s", "a", "b", "--", "sleep", "60"]);
    run.event("acquired");
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    run.event("started");
    store.break_lock("b", token, Evict::Mark);
    let lost = run.event("lost");
    assert_eq!((&lost["lock"], &lost["reason"]), (&"b".into(), &"broken".into()));
    assert_eq!(run.finish(), 79);
    run.rest();
    assert_eq!(printed(&run.seen.join("\n"))[4..], ["released a", "exited a"]);
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn a_signal_while_waiting_gives_all_back() {
    let store = Store::new();
    let _holder = store.hold("b");
    let mut run = store.queue(&["run", "a", "b", "--", "true"], "b", 0);
    assert_eq!(store.inspect("a")["state"], "held");
    run.signal(Signal::TERM);
    assert_eq!(run.finish(), 143);
    assert_eq!(store.inspect("a")["state"], "free");
    assert_eq!(waiters(&store.inspect("b")), 0);
}

#[test]
fn the_order_in_which_they_are_typed_locks_nobody_up() {
    const EACH: usize = 15;
    let store = Store::new();
    fs::write(store.path("number"), "0").unwrap();
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]];
    let increment = "n=$(cat number); echo $((n + 1)) > number";
    thread::scope(|scope| {
        for names in orders {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..EACH {
                    let output =
                        store.output(&sh(&[&["run", "-w", "50s"], &names[..]].concat(), increment));
                    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
                }
            });
        }
    });
    assert_eq!(text(store.path("number")).trim(), (orders.len() * EACH).to_string());
}
