//! R12 and R3: the effect of Ctrl-C in the scripts and loops that people put around a run.

use std::process::Command;

use crate::pty::{CTRL_C, Shell};
use crate::support::{Store, eventually, waiters};

/// A script of this shell, in the folder of the store.
fn script_of(store: &Store, shell: &str, text: &str) {
    std::fs::write(store.path("script"), format!("#!/usr/bin/env {shell}\n{text}\necho went on\n"))
        .unwrap();
}

#[test]
fn r12_ctrl_c_ends_the_script_around_a_run() {
    let store = Store::new();
    let runs = [
        "lockkeeper run a -- sh -c 'echo ready; exec sleep 1000'",
        // The command asked for the terminal, so that only its own group gets typed signals.
        "lockkeeper run a -- sh -c 'echo ready; read x; echo read'",
        "while :; do lockkeeper run a -- sh -c 'echo ready; exec sleep 1000'; done",
    ];
    for (shell, run) in ["bash", "dash"].into_iter().flat_map(|shell| runs.map(|run| (shell, run)))
    {
        script_of(&store, shell, run);
        let mut terminal = Shell::new(&store);
        terminal.keys(&format!("{shell} ./script\n"));
        terminal.sees("ready");
        if run.contains("read x") {
            terminal.is_given_away();
        }
        let before = terminal.ctrl_c_ends_it();
        assert!(
            !before.contains("went on") && !before.contains("ready"),
            "{shell}: {run}: {before}"
        );
        store.inspect_until("a", |lock| lock["state"] == "free");
    }
}

#[test]
fn r12_ctrl_c_ends_the_script_around_a_run_that_waits() {
    let store = Store::new();
    let _holder = store.hold("a");
    for shell in ["bash", "dash"] {
        script_of(&store, shell, "lockkeeper run a -- touch started");
        let mut terminal = Shell::new(&store);
        terminal.keys(&format!("{shell} ./script\n"));
        store.inspect_until("a", |lock| waiters(lock) == 1);
        let before = terminal.ctrl_c_ends_it();
        assert!(!before.contains("went on"), "{shell}: {before}");
        store.inspect_until("a", |lock| waiters(lock) == 0);
    }
    assert!(!store.path("started").exists());
}

#[test]
fn r12_a_script_goes_on_after_a_command_that_handles_ctrl_c() {
    let store = Store::new();
    script_of(
        &store,
        "bash",
        "lockkeeper run a -- bash -c 'trap \"echo caught; exit 5\" INT; echo ready; read x'; echo code $?",
    );
    let mut terminal = Shell::new(&store);
    terminal.keys("bash ./script\n");
    terminal.sees("ready");
    terminal.is_given_away();
    terminal.keys(CTRL_C);
    terminal.sees("caught");
    terminal.sees("code 5");
    terminal.sees("went on");
}

#[test]
fn r12_ctrl_c_ends_all_runs_of_xargs_and_of_make() {
    let store = Store::new();
    let run = "lockkeeper run $1 -- sh -c 'echo ready; exec sleep 1000'";
    std::fs::write(store.path("one"), run).unwrap();
    std::fs::write(
        store.path("Makefile"),
        "all: a b c\na b c:\n\t@sh ./one $@\n.PHONY: all a b c\n",
    )
    .unwrap();
    for (program, line) in
        [("xargs", "echo a b c | xargs -n 1 -P 3 sh ./one\n"), ("make", "make -j 3\n")]
    {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("left out: interrupts: {program} is not installed");
            continue;
        }
        let mut terminal = Shell::new(&store);
        terminal.keys(line);
        for _ in 0..3 {
            terminal.sees("ready");
        }
        terminal.keys(CTRL_C);
        eventually("their end", || !terminal.has_given_the_terminal());
        for name in ["a", "b", "c"] {
            store.inspect_until(name, |lock| lock["state"] == "free");
        }
    }
}
