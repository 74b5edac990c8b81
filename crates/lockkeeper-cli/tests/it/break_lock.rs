//! `break`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Process, REPORTS_LOSSES, Store, Terminal, eventually, sh, stderr, stdout};

const FOR_EVER: &str = "while :; do sleep 0.02; done";

/// A command that ends well at TERM, under a lock, and the token of its lock.
fn hold(store: &Store, name: &str, ttl: &str, args: &[&str]) -> (Process, String) {
    let script = format!("trap 'echo ended; exit 0' TERM; echo ready; {FOR_EVER}");
    let holder = store
        .start(&sh(&[&["--owner", "me@here", "run", name, "-t", ttl], args].concat(), &script));
    assert_eq!(holder.line(), "ready");
    let token = store.inspect(name)["holders"][0]["token"].as_str().unwrap().to_owned();
    (holder, token)
}

#[test]
fn break_informs_the_holder_before_the_lock_is_free() {
    let store = Store::new();
    let (mut holder, token) = hold(&store, "a", "12s", &[]);
    let mut next = store.queue(&sh(&["run", "a"], "echo mine"), "a", 0);
    let broken =
        ["--owner", "ops", "break", "a", "--token", &token, "--reason", "runner is stuck", "--yes"];
    let output = store.output(&broken);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(
        stdout(&output)
            .starts_with("broken: me@here cannot renew the lock; the lock is free within "),
        "{output:?}"
    );
    let marked = stdout(&store.output(&["inspect", "a"]));
    // If the store reports the loss at once, the holder may have released the lock by now.
    assert!(REPORTS_LOSSES || marked.contains("(broken by ops: runner is stuck)"), "{marked}");
    let broken = &store.inspect("a")["holders"][0]["broken"];
    assert!(
        REPORTS_LOSSES || *broken == serde_json::json!({"by": "ops", "reason": "runner is stuck"}),
        "{broken}"
    );
    // Its command gets TERM while the lock is still its own: the next holder gets the lock after
    // the command's end.
    assert_eq!(holder.line(), "ended");
    assert_eq!(holder.finish(), 79);
    let printed = holder.rest();
    assert!(printed.contains("lock \"a\": lost: ") && printed.contains("SIGTERM"), "{printed}");
    assert!(printed.contains("ops") && printed.contains("runner is stuck"), "{printed}");
    assert_eq!(next.line(), "mine");
    assert_eq!(next.finish(), 0);
}

#[test]
fn machines_learn_of_it_too() {
    let store = Store::new();
    let (mut holder, token) = hold(&store, "p/a", "12s", &["--json"]);
    let id = store.inspect("p/a")["holders"][0]["id"].as_str().unwrap().to_owned();
    let output = store
        .output(&["--prefix", "p/", "--json", "break", "a", "--id", &id, "--reason", "r", "--yes"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["free_in_ms"].as_u64().is_some_and(|left| left <= 12_000), "{report}");
    let mut rest = report.clone();
    rest.as_object_mut().unwrap().remove("free_in_ms");
    assert_eq!(
        rest,
        json!({"lock": "a", "id": id, "owner": "me@here", "token": token, "removed": false})
    );
    let lost = holder.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&json!("broken"), &json!("TERM")));
    assert!(lost["by"].as_str().is_some_and(|by| by.contains('@')) && lost["why"] == "r", "{lost}");
    assert_eq!(holder.finish(), 79);
}

#[test]
fn an_unreachable_holder_keeps_the_lock_for_the_rest_of_its_ttl() {
    let store = Store::new();
    let (holder, token) = hold(&store, "a", "6s", &[]);
    holder.signal(rustix::process::Signal::STOP);
    assert_eq!(store.code(&["break", "a", "--token", &token, "--reason", "stuck", "--yes"]), 0);
    assert_eq!(store.code(&["run", "-n", "a", "--", "true"]), 75);
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    holder.signal(rustix::process::Signal::CONT);
}

#[test]
fn break_now_frees_the_lock_at_once_and_explains_it() {
    let store = Store::new();
    let (mut holder, token) = hold(&store, "a", "60s", &["--json"]);
    let args = ["break", "a", "--token", &token, "--reason", "r", "--yes", "--now"];
    let output = store.output(&args);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "removed: me@here no longer holds the lock\n");
    let printed = stderr(&output);
    assert!(
        printed.contains("--now frees the lock while ") && printed.contains("me@here"),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
    holder.signal(rustix::process::Signal::TERM);
    // The run learns who removed it: at its release, or at once from a store that reports losses.
    // Such a report may come too late.
    assert_eq!(holder.finish(), 79);
    let reason = &holder.event("lost")["reason"];
    assert!(reason == "broken" || (REPORTS_LOSSES && reason == "forgotten"), "{reason}");
    let output = store.output(&args);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), ""),
        "{}",
        stderr(&output)
    );
}

#[test]
fn break_now_reports_operator_and_reason_to_the_holder() {
    let store = Store::new();
    let (mut holder, token) = hold(&store, "a", "12s", &["--json"]);
    let args =
        ["--owner", "ops", "break", "a", "--token", &token, "--reason", "stuck", "--yes", "--now"];
    assert_eq!(store.code(&args), 0);
    let lost = holder.event("lost");
    assert_eq!(
        (&lost["reason"], &lost["by"], &lost["why"]),
        (&json!("broken"), &json!("ops"), &json!("stuck"))
    );
    // Another one may have the lock: there is no time for TERM.
    assert_eq!(lost["signal"], "KILL", "{lost}");
    assert_eq!(holder.finish(), 79);
}

/// The command of another run, whose lock was marked no later, shows that the cause is not the end
/// of `--kill-after`.
#[test]
fn break_now_kills_a_command_that_a_mark_left_its_time() {
    let store = Store::new();
    let hold = |name: &str| {
        let script = format!(
            "exec 9> held.{name}; flock 9; trap 'echo {name} >> heard' TERM; echo ready; {FOR_EVER}"
        );
        let holder = store.start(&sh(&["run", name, "-t", "36s", "--kill-after", "12s"], &script));
        assert_eq!(holder.line(), "ready");
        (holder, store.inspect(name)["holders"][0]["token"].as_str().unwrap().to_owned())
    };
    let [(mut a, token_a), (mut b, token_b)] = ["a", "b"].map(hold);
    for (name, token) in [("a", &token_a), ("b", &token_b)] {
        assert_eq!(store.code(&["break", name, "--token", token, "--reason", "r", "--yes"]), 0);
    }
    let signalled = || std::fs::read_to_string(store.path("heard")).unwrap_or_default();
    eventually("TERM for both", || signalled().lines().count() == 2);
    let (first, later, token) =
        if signalled().starts_with('a') { ("a", "b", token_b) } else { ("b", "a", token_a) };
    assert_eq!(
        store.code(&["break", later, "--token", &token, "--reason", "r", "--yes", "--now"]),
        0
    );
    // The next holder has the lock at once; here it waits for the end of the command before it.
    assert_eq!(store.code(&["run", later, "--", "flock", &format!("held.{later}"), "true"]), 0);
    let is_held = store.code(&["run", "c", "--", "flock", "-n", &format!("held.{first}"), "true"]);
    assert_eq!(
        is_held, 1,
        "the command went on beside the next holder, for as long as one that was only marked"
    );
    assert_eq!((a.finish(), b.finish()), (79, 79));
}

#[test]
fn a_waiter_can_be_sent_to_the_end_of_the_line() {
    let store = Store::new();
    let (mut holder, _) = hold(&store, "a", "12s", &[]);
    let mut one = store.queue(&["--owner", "one", "run", "a", "--", "echo", "ran"], "a", 0);
    let _two = store.queue(&["--owner", "two", "run", "a", "--", "true"], "a", 1);
    let id = store.inspect("a")["waiters"][0]["id"].as_str().unwrap().to_owned();
    let output = store.output(&["break", "a", "--id", &id, "--reason", "r", "--yes", "--now"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(stdout(&output), "broken: one has lost its place in the queue\n");
    store.inspect_until("a", |lock| {
        let owners: Vec<&Value> =
            lock["waiters"].as_array().unwrap().iter().map(|waiter| &waiter["owner"]).collect();
        owners == ["two", "one"]
    });
    // The waiter gets the lock at its next turn.
    holder.signal(Signal::TERM);
    holder.wait();
    assert_eq!((one.line().as_str(), one.finish()), ("ran", 0));
}

#[test]
fn exit_1_is_nothing_to_break() {
    let store = Store::new();
    assert_eq!(store.code(&["break", "a", "--token", "7", "--reason", "r", "--yes"]), 1);
    let (_holder, _) = hold(&store, "a", "12s", &[]);
    for target in [["--token", "7"], ["--id", "0123456789abcdef"]] {
        let output = store
            .output(&[&["break", "a", "--reason", "r", "--yes", "--now"], &target[..]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).starts_with("lockkeeper: lock \"a\": nobody holds it"),
            "{}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(target[1]), "{}", stderr(&output));
    }
    assert_eq!(store.inspect("a")["state"], "held");
}

#[test]
fn break_without_a_terminal_needs_yes() {
    let store = Store::new();
    let (_holder, token) = hold(&store, "a", "12s", &[]);
    let output = store.output(&["break", "a", "--token", &token, "--reason", "r", "--now"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("--yes"), "{}", stderr(&output));
    assert_eq!(store.inspect("a")["state"], "held");
}

/// The screen of a terminal after this text was typed, and the exit code.
fn on_a_terminal(store: &Store, typed: &str, args: &[&str]) -> (String, Option<i32>) {
    let (mut command, terminal) = (store.command(args), Terminal::new());
    command.stdin(terminal.side()).stdout(terminal.side()).stderr(terminal.side());
    let mut child = command.spawn().unwrap();
    drop(command);
    terminal.type_line(typed);
    let status = child.wait().unwrap();
    (terminal.screen(), status.code())
}

#[test]
fn break_on_a_terminal_asks() {
    let store = Store::new();
    let (mut holder, token) = hold(&store, "a", "12s", &["--reason", "a test"]);
    let args = ["break", "a", "--token", &token, "--reason", "r"];
    for no in ["", "n", "yesterday"] {
        let (screen, code) = on_a_terminal(&store, no, &args);
        assert_eq!(code, Some(1), "{screen}");
        assert!(
            screen.contains(&format!("lock \"a\" is held by me@here, token {token}, for ")),
            "{screen}"
        );
        assert!(
            screen.contains("(a test). Break it? [y/N]") && screen.contains("nothing was broken"),
            "{screen}"
        );
    }
    assert_eq!(store.code(&["check", &format!("lk1.x.{token}.a")]), 0);
    let (screen, code) = on_a_terminal(&store, "y", &args);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(holder.finish(), 79);
}

#[test]
fn what_can_never_be_broken_is_a_matter_of_usage() {
    let store = Store::new();
    let long = "x".repeat(1025);
    for args in [
        &["a", "--token", "7"][..],
        &["a", "--reason", "r"],
        &["a", "--reason", "r", "--token", "7", "--id", "0123456789abcdef"],
        &["a", "--reason", "r", "--token", "seven"],
        &["a", "--reason", "r", "--id", "7"],
        &["", "--reason", "r", "--token", "7"],
        &["a\nb", "--reason", "r", "--token", "7"],
    ] {
        assert_eq!(store.code(&[&["break", "--yes"], args].concat()), 64, "{args:?}");
    }
    let (_holder, token) = hold(&store, "a", "12s", &[]);
    assert_eq!(store.code(&["break", "a", "--token", &token, "--yes", "--reason", &long]), 64);
}
