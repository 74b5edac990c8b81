//! R11: `run` as the first process of a container.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Process, Store, children, eventually, is_alive, signal, text};

/// `lockkeeper run` as PID 1 of a namespace of its own.
fn start(store: &Store, script: &str) -> Process {
    start_as("run", store, script)
}

fn start_as(what: &str, store: &Store, script: &str) -> Process {
    start_with(&[what, "a"], store, script)
}

fn start_with(args: &[&str], store: &Store, script: &str) -> Process {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args([
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        env!("CARGO_BIN_EXE_lockkeeper"),
    ]);
    command.args(["-S", &store.url()]).args(args).args(["--json", "--", "sh", "-c", script]);
    command.current_dir(store.path(""));
    let mut run = Process::start(&mut command);
    // Where namespaces are forbidden, this says so.
    run.event("started");
    run
}

#[test]
fn r11_as_pid_1_it_reaps_orphans() {
    let store = Store::new();
    // Each orphan's parent ends at once, and then the orphan, in the command's group or outside of
    // it. A process that is not reaped stays a zombie.
    let script = "for i in 1 2 3 4 5; do sh -c 'sleep 0.1 & setsid sleep 0.1 & true'; done; echo orphans; cat; exit 4";
    let mut run = start(&store, script);
    assert_eq!(run.line(), "orphans");
    let first = first_process(&run);
    assert!(text(format!("/proc/{first}/status")).contains("\t1\n"), "it is not PID 1");
    eventually("the orphans are reaped", || children(first).len() == 2);
    let left: Vec<String> =
        children(first).iter().map(|pid| text(format!("/proc/{pid}/stat"))).collect();
    assert!(left.iter().all(|stat| !stat.contains(") Z")), "{left:?}");
    assert_eq!(run.finish(), 4);
}

#[test]
fn r11_as_pid_1_it_hands_on_signals_and_follows_its_command() {
    let store = Store::new();
    for (name, number) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut run = start(&store, "echo ready; exec sleep 1000");
        run.line();
        signal(first_process(&run), name);
        assert_eq!(run.finish(), number);
        assert_eq!(store.inspect("a")["state"], "free");
    }
}

#[test]
fn r11_the_end_of_pid_1_ends_its_command_and_frees_the_lock() {
    let store = Store::new();
    let mut run = start(&store, "echo ready; exec sleep 1000");
    run.line();
    signal(first_process(&run), Signal::KILL);
    run.wait();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
}

/// PID 1 reaps the guard with the orphans, and still learns that the guard has done its work.
#[test]
fn r11_as_pid_1_a_guard_that_has_killed_gets_no_successor() {
    let store = Store::new();
    let mut run = start_with(&["run", "a", "-t", "3s"], &store, "echo ready; exec sleep 1000");
    assert_eq!(run.line(), "ready");
    let first = first_process(&run);
    signal(first, Signal::STOP);
    eventually("the guard has killed", || !children(first).iter().any(|pid| is_alive(pid)));
    signal(first, Signal::CONT);
    assert_eq!(run.finish(), 79);
    assert!(run.events().contains(&"lost".to_owned()), "{:?}", run.seen);
    assert!(!run.seen.iter().any(|line| line.contains("the guard process")), "{:?}", run.seen);
}

#[test]
fn r11_as_pid_1_elect_reaps_orphans_while_there_is_no_command() {
    let store = Store::new();
    // The first command fails, and leaves a process that ends only later; then another candidate
    // leads for a while.
    let script = "test -e again && exec cat; touch again; sh -c 'setsid sh -c \"cat fifo\" & true'; echo left; cat; exit 3";
    let made = Command::new("mkfifo").arg(store.path("fifo")).status().unwrap();
    assert!(made.success());
    let mut elect = start_as("elect", &store, script);
    assert_eq!(elect.line(), "left");
    let first = first_process(&elect);
    // No event shows a look, and there are two a second: a process that has just been started may
    // be a job.
    thread::sleep(Duration::from_secs(3));
    elect.close_stdin();
    elect.event("restarting");
    let holder = store.hold("a");
    elect.event("queued");
    assert_eq!(children(first).len(), 1, "what was left behind lives on");
    std::fs::write(store.path("fifo"), "").unwrap();
    eventually("the orphan is reaped", || children(first).is_empty());
    drop(holder);
    elect.event("started");
    assert_eq!(elect.finish(), 0);
}

/// The number that PID 1 of the namespace has outside.
fn first_process(run: &Process) -> u32 {
    children(run.pid()).first().unwrap().parse().unwrap()
}
