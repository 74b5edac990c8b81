//! `request`, and the reaction of `run` and `elect`.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Store, eventually, sh, stderr, stdout, waiters};

const FOR_EVER: &str = "while :; do sleep 0.02; done";

#[test]
fn request_informs_the_holder_who_asks_and_why() {
    let store = Store::new();
    let mut holder =
        store.start(&sh(&["run", "a", "-t", "3s", "--json"], "echo ready; read -r _; echo done"));
    assert_eq!(holder.line(), "ready");
    let output =
        store.output(&["--owner", "ops@here", "request", "a", "--reason", "a hot fix waits"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(stdout(&output), "asked: the holders of lock \"a\" get the request\n");
    let event = holder.event("release_requested");
    assert_eq!((&event["lock"], &event["by"]), (&json!("a"), &json!("ops@here")));
    assert_eq!(event["why"], "a hot fix waits");
    // The command goes on, and its lock is still held.
    assert_eq!(store.inspect("a")["state"], "held");
    holder.close_stdin();
    assert_eq!((holder.line(), holder.finish()), ("done".to_owned(), 0));
}

#[test]
fn request_for_what_nobody_holds_is_a_no() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let output = store.output(&["request", "a"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("lock \"a\": nobody holds it"), "{output:?}");
    let output = store.output(&["--json", "request", "a"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "{\"lock\":\"a\",\"asked\":false}\n")
    );
}

#[test]
fn on_request_sends_the_signal_that_was_named_for_each_request() {
    let store = Store::new();
    let script = format!("trap 'echo asked' USR1; echo ready; {FOR_EVER}");
    let mut holder =
        store.start(&sh(&["run", "a", "-t", "3s", "--on-request", "SIGUSR1"], &script));
    assert_eq!(holder.line(), "ready");
    for reason in ["one", "two"] {
        assert_eq!(store.code(&["request", "a", "--reason", reason]), 0);
        assert_eq!(holder.line(), "asked");
    }
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish(), 143);
    let printed = holder.rest();
    assert!(
        printed.contains("asks to let go: one") && printed.contains("asks to let go: two"),
        "{printed}"
    );
}

#[test]
fn elect_hands_the_leadership_over_on_request() {
    let store = Store::new();
    let candidate = |value: &str| {
        let args = [
            "elect",
            "jobs",
            "-t",
            "3s",
            "--restart",
            "always",
            "--value",
            value,
            "--on-request",
            "TERM",
        ];
        store.start(&sh(&args, &format!("echo leads; {FOR_EVER}")))
    };
    let first = candidate("first");
    assert_eq!(first.line(), "leads");
    let second = candidate("second");
    eventually("it waits", || waiters(&store.inspect("jobs")) == 1);
    assert_eq!(store.code(&["request", "jobs"]), 0);
    assert_eq!(second.line(), "leads");
    eventually("the first stands again", || waiters(&store.inspect("jobs")) == 1);
}

#[test]
fn on_request_refuses_what_no_command_can_use() {
    let store = Store::new();
    for what in ["KILL", "9", "term"] {
        let output = store.output(&["run", "a", "--on-request", what, "--", "true"]);
        assert_eq!(output.status.code(), Some(64), "{what}");
        assert!(
            stderr(&output).contains("is no signal for a request. Try: TERM, HUP"),
            "{output:?}"
        );
    }
}
