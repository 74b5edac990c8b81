//! `check`.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::{Process, Store, stderr, stdout};

/// A holder, with its sequencer and its token.
fn hold(store: &Store, name: &str) -> (Process, String, String) {
    let mut holder = store.start(&["run", name, "--json", "--", "cat"]);
    let acquired = holder.event("acquired");
    holder.event("started");
    (
        holder,
        acquired["sequencer"].as_str().unwrap().into(),
        acquired["token"].as_str().unwrap().into(),
    )
}

fn json_of(store: &Store, args: &[&str]) -> Value {
    serde_json::from_slice(&store.output(args).stdout).unwrap()
}

#[test]
fn check_says_valid_while_the_grant_holds_and_stale_afterwards() {
    let store = Store::new();
    let (mut holder, sequencer, token) = hold(&store, "stock/42");
    let output = store.output(&["check", &sequencer]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "valid\n"),
        "{}",
        stderr(&output)
    );
    let report = json_of(&store, &["check", "--json", &sequencer]);
    assert_eq!(report, json!({"valid": true, "current_token": token}));
    assert_eq!(holder.finish(), 0);
    let output = store.output(&["check", &sequencer]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "stale\n"),
        "{}",
        stderr(&output)
    );
    let report = json_of(&store, &["check", "--json", &sequencer]);
    assert_eq!(report, json!({"valid": false, "current_token": null}));
    // The answer names the current holder by token.
    let (_next, _, newer) = hold(&store, "stock/42");
    let output = store.output(&["check", "--json", &sequencer]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), format!("{{\"valid\":false,\"current_token\":\"{newer}\"}}\n"));
}

#[test]
fn the_mode_belongs_to_the_grant() {
    let store = Store::new();
    let (_holder, sequencer, _) = hold(&store, "a");
    assert_eq!(store.code(&["check", &sequencer]), 0);
    assert_eq!(store.code(&["check", &sequencer.replace(".x.", ".s.")]), 1);
}

#[test]
fn a_sequencer_can_come_from_stdin() {
    let store = Store::new();
    let (_holder, sequencer, _) = hold(&store, "a");
    for text in [sequencer.clone(), format!("{sequencer}\n"), format!("{sequencer}\r\n")] {
        let mut command = store.command(&["check", "-"]);
        let mut check = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "valid\n"));
    }
}

#[test]
fn the_name_in_a_sequencer_has_its_prefix() {
    let store = Store::new();
    let mut holder = store.start(&["--prefix", "p/", "run", "a", "--json", "--", "cat"]);
    let sequencer = holder.event("acquired")["sequencer"].as_str().unwrap().to_owned();
    assert_eq!(store.code(&["--prefix", "p/", "check", &sequencer]), 0);
    assert_eq!(store.code(&["check", &sequencer]), 0);
}

#[test]
fn a_bad_sequencer_is_a_matter_of_usage() {
    let store = Store::new();
    for bad in ["", "a", "lk1.x.7", "lk2.x.7.a", "lk1.x.07.a", "lk1.x.7.a\n", "--", "-"] {
        let output = store.output(&["check", "--", bad]);
        assert_eq!(output.status.code(), Some(64), "{bad:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty());
        assert!(
            stderr(&output).starts_with("lockkeeper: ") && stderr(&output).lines().count() == 1,
            "{output:?}"
        );
    }
    assert_eq!(store.code(&["check"]), 64);
    // The command did not open the store.
    assert!(!store.database().exists());
}
