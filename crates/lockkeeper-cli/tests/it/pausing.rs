//! R5, on a terminal and without one.
//!
//! A shell that is stopped in the middle of a vfork cannot stop before its child goes on, so a
//! process that these tests stop forks nothing.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::pty::{CTRL_Z, Shell, is_stopped, pipe};
use crate::support::{Process, Store, children, eventually, is_alive, sh, text};

#[test]
fn r5_ctrl_z_stops_both_and_fg_continues_both() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    // One command has the terminal when it is stopped, and one does not.
    for asks in [true, false] {
        let from = if asks { "" } else { "< go" };
        shell.keys(&format!(
            "lockkeeper run a -- sh -c 'echo ready; read x {from}; echo got $x; exit 4'\n"
        ));
        shell.sees("ready");
        if asks {
            shell.is_given_away();
        }
        let run = shell.run();
        for _ in 0..3 {
            shell.keys(CTRL_Z);
            shell.sees("Stopped");
            assert!(is_stopped(run));
            assert_eq!(store.inspect("a")["state"], "held");
            shell.keys("fg\n");
            eventually("it goes on", || !is_stopped(run) && shell.has_given_the_terminal());
        }
        if asks {
            shell.keys("a line\n");
        } else {
            std::fs::write(store.path("go"), "a line\n").unwrap();
        }
        shell.sees("got a line");
        shell.code_is(4);
    }
}

#[test]
fn r5_ctrl_z_in_a_script_stops_the_script_too() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    for asks in [true, false] {
        let from = if asks { "" } else { "< go" };
        let run = format!("lockkeeper run a -- sh -c \"echo ready; read x {from}; echo got \\$x\"");
        shell.keys(&format!("bash -c '{run}; echo end of script'\n"));
        shell.sees("ready");
        if asks {
            shell.is_given_away();
        }
        let run = shell.run();
        for _ in 0..3 {
            shell.keys(CTRL_Z);
            shell.sees("Stopped");
            shell.keys("fg\n");
            eventually("it goes on", || !is_stopped(run) && shell.has_given_the_terminal());
        }
        if asks {
            shell.keys("a line\n");
        } else {
            std::fs::write(store.path("go"), "a line\n").unwrap();
        }
        shell.sees("got a line");
        shell.sees("end of script");
    }
}

#[test]
fn r5_bg_continues_both_without_the_terminal() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'echo ready; read x < go; echo went on; exit 4'\n");
    shell.sees("ready");
    shell.keys(CTRL_Z);
    shell.sees("Stopped");
    shell.keys("bg; echo > go; wait %1; echo code $?\n");
    shell.sees("went on");
    shell.sees("code 4");
}

#[test]
fn r5_a_stopped_command_that_lost_its_lock_is_killed_and_not_continued() {
    let store = Store::new();
    pipe(&store, "never");
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run -t 15s a -- sh -c 'trap \"touch continued\" CONT TERM; echo ready; read x < never'\n");
    shell.sees("ready");
    let run = shell.run();
    let command = children(run)
        .into_iter()
        .find(|pid| text(format!("/proc/{pid}/cmdline")).starts_with("sh"))
        .unwrap();
    shell.keys(CTRL_Z);
    shell.sees("Stopped");
    // No process of the job may be left when the next one starts, even if the job is never
    // continued.
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    assert!(!is_alive(&command));
    assert!(is_stopped(run));
    shell.keys("fg; echo code $?\n");
    shell.sees("code 79");
    assert!(!store.path("continued").exists());
}

#[test]
fn r5_a_stop_that_is_sent_stops_both_without_a_terminal() {
    let store = Store::new();
    let mut command = store.command(&sh(&["run", "a", "--json"], "echo ready; read x; exit 4"));
    let mut run = Process::start(command.process_group(0));
    let child = run.event("started")["pid"].as_u64().unwrap().try_into().unwrap();
    run.line();
    for _ in 0..3 {
        run.signal(Signal::TSTP);
        eventually("both are stopped", || is_stopped(child) && is_stopped(run.pid()));
        run.signal(Signal::CONT);
        eventually("both go on", || !is_stopped(child) && !is_stopped(run.pid()));
    }
    assert_eq!(run.finish(), 4);
}

#[test]
fn r5_a_stop_right_after_a_continuation_is_a_stop() {
    let store = Store::new();
    let mut command = store.command(&sh(&["run", "a", "--json"], "echo ready; read x; exit 4"));
    let mut run = Process::start(command.process_group(0));
    let child = run.event("started")["pid"].as_u64().unwrap().try_into().unwrap();
    run.line();
    run.signal(Signal::TSTP);
    // Two threads may get the two signals at once, and report them in the other order. That is
    // rare.
    let mut missed = 0;
    let mut both_stop = || {
        let mut sent = Instant::now();
        eventually("both are stopped", || {
            if sent.elapsed() > Duration::from_secs(10) {
                (missed, sent) = (missed + 1, Instant::now());
                run.signal(Signal::TSTP);
            }
            is_stopped(child) && is_stopped(run.pid())
        });
        run.signal(Signal::CONT);
    };
    for _ in 0..20 {
        both_stop();
        run.signal(Signal::TSTP);
    }
    both_stop();
    assert_eq!(run.finish(), 4);
    assert!(missed < 4, "{missed}");
}

#[test]
fn r5_a_loss_during_a_stop_is_noticed_without_the_guard() {
    let store = Store::new();
    let script = "trap 'touch continued' CONT TERM; echo ready; read x";
    let mut command = store.command(&sh(&["run", "a", "--json", "-t", "15s"], script));
    let mut run = Process::start(command.process_group(0));
    let child: u32 = run.event("started")["pid"].as_u64().unwrap().try_into().unwrap();
    run.line();
    for process in children(run.pid()) {
        if process != child.to_string() {
            crate::support::signal(process.parse().unwrap(), Signal::KILL);
        }
    }
    run.signal(Signal::TSTP);
    eventually("both are stopped", || is_stopped(child) && is_stopped(run.pid()));
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    run.signal(Signal::CONT);
    assert_eq!(run.finish(), 79);
    assert!(!is_alive(&child.to_string()));
    assert!(!store.path("continued").exists());
}

#[test]
fn r5_a_stop_that_is_sent_while_waiting_is_only_a_pause() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut command = store.command(&["run", "a", "--", "true"]);
    let mut run = Process::start(command.process_group(0));
    store.inspect_until("a", |lock| lock["waiters"].as_array().unwrap().len() == 1);
    run.signal(Signal::TSTP);
    eventually("it is stopped", || is_stopped(run.pid()));
    run.signal(Signal::CONT);
    eventually("it goes on", || !is_stopped(run.pid()));
    assert_eq!(holder.finish(), 0);
    assert_eq!(run.finish(), 0);
}

#[test]
fn r5_a_command_that_stops_itself_without_a_terminal_keeps_its_lock() {
    let store = Store::new();
    let args = ["run", "a", "--json", "-t", "15s", "-k", "500ms"];
    let mut command = store.command(&sh(&args, "echo ready; kill -STOP $$; exit 4"));
    // In a session of its own there is no terminal, even if the tests have one.
    let mut shell = Command::new("setsid");
    shell
        .arg("--wait")
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(store.path(""));
    command = shell;
    let mut run = Process::start(&mut command);
    let child: u32 = run.event("started")["pid"].as_u64().unwrap().try_into().unwrap();
    eventually("it is stopped", || is_stopped(child));
    thread::sleep(Duration::from_secs(16));
    assert_eq!(store.inspect("a")["state"], "held");
    crate::support::signal(child, Signal::CONT);
    assert_eq!(run.finish(), 4);
}
