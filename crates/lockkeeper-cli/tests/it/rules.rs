//! The rules of `run`, by their numbers. The rules of a lost lock are in `loss`.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::support::{
    Process, Store, binary, eventually, is_alive, is_ignored, sh, stderr, stdout, text, waiters,
};

#[test]
fn r1_stdout_is_the_commands() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--json", "-v", "--", "echo", "x"]);
    assert_eq!(stdout(&output), "x\n");
    let holder = store.hold("a");
    let output = store.output(&["run", "a", "-n", "--json", "-v", "--", "echo", "x"]);
    assert_eq!(stdout(&output), "");
    drop(holder);
}

#[test]
fn r1_stdin_is_inherited_unread() {
    let store = Store::new();
    fs::write(store.path("in"), "one\ntwo\n").unwrap();
    let stdin = || fs::File::open(store.path("in")).unwrap();
    let output = store.command(&["run", "a", "--", "cat"]).stdin(stdin()).output().unwrap();
    assert_eq!(stdout(&output), "one\ntwo\n");
    // The next command reads the rest of stdin: `run` does not read ahead.
    let shell = format!("{} run a -S {} -- true; cat", binary().display(), store.url());
    let output =
        std::process::Command::new("sh").arg("-c").arg(shell).stdin(stdin()).output().unwrap();
    assert_eq!(stdout(&output), "one\ntwo\n");
}

#[test]
fn r2_the_command_starts_only_after_the_grant() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--", "touch", "started"], "a", 0);
    assert!(!store.path("started").exists());
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0);
    assert!(store.path("started").exists());
}

#[test]
fn r2_a_command_that_cannot_start_takes_no_place_in_line() {
    let store = Store::new();
    let _holder = store.hold("a");
    fs::write(store.path("plain"), "").unwrap();
    fs::create_dir(store.path("directory")).unwrap();
    // These runs would wait for ever.
    assert_eq!(store.code(&["run", "a", "--", "no-such-command"]), 127);
    assert_eq!(store.code(&["run", "a", "--", "./no-such-command"]), 127);
    assert_eq!(store.code(&["run", "a", "--", "./plain"]), 126);
    assert_eq!(store.code(&["run", "a", "--", "./directory"]), 126);
    assert_eq!(waiters(&store.inspect("a")), 0);
}

#[test]
fn r3_a_signal_while_waiting_leaves_the_queue() {
    let store = Store::new();
    let _holder = store.hold("a");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2]
    {
        let mut waiter = store.queue(&["run", "a", "--json", "--", "touch", "started"], "a", 0);
        // The store knows the place of the waiter before the waiter does.
        waiter.event("queued");
        waiter.signal(signal);
        // No other event ends the wait, and the holder stays.
        assert_eq!(waiter.wait().signal(), Some(signal.as_raw()), "{signal:?}");
        assert_eq!(waiters(&store.inspect("a")), 0, "{signal:?}");
        assert_eq!(waiter.events(), ["queued", "exited"]);
    }
    assert!(!store.path("started").exists());
}

#[test]
fn r3_a_window_that_changes_its_size_ends_no_wait() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--", "true"], "a", 0);
    waiter.signal(Signal::WINCH);
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0);
}

#[test]
fn r4_signals_go_to_the_commands_group() {
    let store = Store::new();
    // Both shells are in the group, and only the outer one is the command.
    let inner = "for s in INT TERM HUP QUIT USR1 WINCH; do trap \"echo inner $s\" $s; done; trap 'exit 0' USR2; \
                 echo ready; while :; do sleep 0.02; done";
    let outer = format!(
        "for s in INT TERM HUP QUIT USR1 WINCH; do trap : $s; done; trap 'exit 5' USR2; sh -c '{}'; exit 1",
        inner.replace('\'', "'\\''")
    );
    let mut process = store.start(&sh(&["run", "a"], &outer));
    assert_eq!(process.line(), "ready");
    let forwarded = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::WINCH, "WINCH"),
    ];
    for (signal, name) in forwarded {
        // Under nohup the command ignores HUP as `run` does, and would never report it.
        assert!(!is_ignored(signal), "{name} is ignored. Try: cargo xtask test, which resets that");
        process.signal(signal);
        // The shell may report twice when a signal interrupts its wait.
        let mut line = process.line();
        while line != format!("inner {name}") {
            line = process.line();
        }
    }
    process.signal(Signal::USR2);
    assert_eq!(process.finish(), 5);
}

#[test]
fn r4_a_stopped_command_gets_a_signal_that_ends_it() {
    let store = Store::new();
    let mut process = store.start(&sh(&["run", "a"], "echo $$; kill -STOP $$; sleep 60"));
    let stat = format!("/proc/{}/stat", process.line());
    eventually("the command is stopped", || {
        fs::read_to_string(&stat)
            .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T')))
    });
    process.signal(Signal::TERM);
    assert_eq!(process.finish(), 128 + 15);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn r4_the_exit_code_follows_the_command() {
    let store = Store::new();
    assert_eq!(store.code(&sh(&["run", "a"], "exit 0")), 0);
    assert_eq!(store.code(&sh(&["run", "a"], "exit 79")), 79);
    assert_eq!(store.code(&sh(&["run", "a"], "kill -9 $$")), 137);
    // A signal that the command survives is no reason to end.
    let mut process = store
        .start(&sh(&["run", "a"], "trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done"));
    process.line();
    process.signal(Signal::TERM);
    assert_eq!(process.finish(), 3);
    let mut process = store.start(&sh(&["run", "a"], "echo ready; exec sleep 60"));
    process.line();
    process.signal(Signal::INT);
    assert_eq!(process.finish(), 130);
}

#[test]
fn r4_what_was_ignored_stays_ignored() {
    let store = Store::new();
    let shell = format!(
        "trap '' HUP; exec {} run a -S {} -- sh -c 'kill -HUP $$; echo alive'",
        binary().display(),
        store.url()
    );
    let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert_eq!(stdout(&output), "alive\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn r4_a_signal_between_grant_and_start_is_not_lost() {
    let store = Store::new();
    for _ in 0..20 {
        let mut process = store.start(&["run", "a", "--json", "--", "sleep", "60"]);
        process.event("acquired");
        process.signal(Signal::TERM);
        assert_eq!(process.finish(), 143);
    }
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn r9_the_end_of_the_command_releases_and_background_processes_live_on() {
    let store = Store::new();
    let output = store.output(&sh(&["run", "a"], "sleep 60 >/dev/null 2>&1 & echo $!"));
    let pid = stdout(&output).trim().to_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(is_alive(&pid));
    assert_eq!(store.inspect("a")["state"], "free");
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn r10_a_store_that_is_down_at_the_release_is_a_warning() {
    let store = Store::new();
    let mut holder = store.start(&sh(&["run", "a"], "echo ready; cat; exit 4"));
    assert_eq!(holder.line(), "ready");
    let outage = store.outage();
    assert_eq!(holder.finish(), 4);
    drop(outage);
    let rest = holder.rest();
    assert!(rest.contains("the release is not confirmed") && rest.contains("30s"), "{rest}");
}

#[test]
fn r10_what_was_not_released_is_no_event() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let _outage = store.outage();
    assert_eq!(holder.finish(), 0);
    assert_eq!(holder.events(), ["acquired", "started", "exited"]);
}

#[test]
fn r13_nothing_is_released_before_the_command_is_reaped() {
    let store = Store::new();
    let slow = "trap 'echo ending; while ! test -e go; do sleep 0.02; done; exit 6' TERM; echo ready; \
                while :; do sleep 0.02; done";
    let mut process: Process = store.start(&sh(&["run", "a"], slow));
    assert_eq!(process.line(), "ready");
    process.signal(Signal::TERM);
    assert_eq!(process.line(), "ending");
    assert_eq!(store.inspect("a")["state"], "held");
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75);
    fs::write(store.path("go"), "").unwrap();
    assert_eq!(process.finish(), 6);
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn a_killed_holder_does_not_keep_the_lock_for_ever() {
    let store = Store::new();
    let mut holder = store.start(&["run", "a", "--json", "-t", "2s", "--", "cat"]);
    let pid = holder.event("started")["pid"].to_string();
    let mut waiter = store.queue(&["run", "a", "--", "true"], "a", 0);
    holder.signal(Signal::KILL);
    holder.wait();
    assert_eq!(waiter.finish(), 0, "{}", waiter.rest());
    holder.close_stdin();
    eventually("the command", || !is_alive(&pid));
}

#[test]
fn a_closed_stderr_changes_nothing() {
    let store = Store::new();
    let shell =
        format!("{} run a --json -S {} -- sh -c 'exit 3' 2>&-", binary().display(), store.url());
    let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(text(store.path("none")), "");
    assert_eq!(store.inspect("a")["state"], "free");
}
