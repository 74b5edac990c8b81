//! R13: whatever ends the command, no other holder has the lock while processes of the command are
//! left.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{
    self, LIMIT, Process, Store, binary, eventually, is_alive, reaped, sh, stdout, text,
};

/// A job that prints its process id, prints TERM when it gets that signal, and goes on until there
/// is a file `go`.
const JOB: &str =
    "trap \"echo TERM\" TERM; echo $PPID $$; until test -e go; do sleep 0.02; done; echo job done";

fn kill(pid: &str, signal: Signal) {
    support::signal(pid.parse().unwrap(), signal);
}

/// Starts a shell that waits for the job; a given program starts the job. Returns the ids of shell
/// and job.
fn start(store: &Store, args: &[&str], by: &str) -> (Process, String, String) {
    let mut run = store.start(&sh(args, &format!("echo $$; {by} sh -c '{JOB}'; echo shell done")));
    run.event("started");
    let (shell, job) = (run.line(), run.line());
    (run, shell, job.split(' ').nth(1).unwrap().to_owned())
}

/// A third of the lease is the longest time between TERM and KILL, and no test here waits for it.
const LONG: [&str; 6] = ["run", "a", "--json", "-t3m", "-k", "60s"];
/// `timeout` makes itself the leader of a group.
const TIMEOUT: &str = "timeout 1000";

#[test]
fn r13_a_job_keeps_the_lock_when_a_signal_to_run_ended_its_shell() {
    for by in ["", TIMEOUT] {
        let store = Store::new();
        let (mut run, shell, job) = start(&store, &LONG, by);
        run.signal(Signal::TERM);
        assert_eq!(run.line(), "TERM", "{by}");
        reaped(&shell);
        assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75, "{by}");
        assert!(is_alive(&job), "{by}");
        fs::write(store.path("go"), "").unwrap();
        assert_eq!(run.finish(), 143, "{by}: {}", run.rest());
        assert_eq!(run.lines().last().unwrap(), "job done");
        assert_eq!(store.inspect("a")["state"], "free");
    }
}

#[test]
fn r13_a_killed_shells_job_is_asked_to_end_and_keeps_the_lock() {
    for by in ["", TIMEOUT] {
        let store = Store::new();
        let (mut run, shell, _) = start(&store, &LONG, by);
        wait_for_a_look();
        kill(&shell, Signal::KILL);
        assert_eq!(run.line(), "TERM", "{by}");
        reaped(&shell);
        assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75, "{by}");
        fs::write(store.path("go"), "").unwrap();
        assert_eq!(run.finish(), 137, "{by}: {}", run.rest());
        assert_eq!(run.lines().last().unwrap(), "job done");
    }
}

/// `run` looks twice a second who belongs to the command. No event shows that a look has happened.
fn wait_for_a_look() {
    thread::sleep(Duration::from_secs(4));
}

#[test]
fn r13_a_job_that_does_not_end_after_its_shell_is_killed() {
    let store = Store::new();
    let (mut run, _, job) = start(&store, &["run", "a", "--json", "-k", "300ms"], TIMEOUT);
    run.signal(Signal::TERM);
    assert_eq!(run.finish(), 143, "{}", run.rest());
    assert!(!is_alive(&job));
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn r13_an_unkillable_job_of_another_user_keeps_the_lock() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can make a program that becomes another user");
        return;
    }
    let store = Store::new();
    // A folder of another user than root, and a program that switches to root, like sudo.
    let dir = store.path("theirs");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
    let mut copy = Command::new("sh");
    copy.args(["-c", "cp $(command -v setpriv) sudo && chmod 4755 sudo"]);
    assert!(copy.current_dir(store.path("")).status().unwrap().success());
    let url = format!("file:{}", dir.join("locks.db").display());
    let job = "echo $$; until test -e go; do sleep 0.02; done";
    let script = format!(
        "echo $$; ../sudo --reuid 0 --regid 0 --clear-groups sh -c '{job}'; echo shell done"
    );
    let run = |args: &[&str]| store.as_user(&[&["-S", &url], args].concat());
    let args = ["run", "a", "--json", "-t", "6s", "-k", "300ms"];
    let mut holder = Process::start(run(&sh(&args, &script)).current_dir(&dir));
    let (shell, job) = (holder.line(), holder.line());
    kill(&shell, Signal::KILL);
    // A process that the job has started at that moment may be named too.
    let printed = std::iter::repeat_with(|| holder.error_line())
        .find(|line| line.contains("go on after KILL"))
        .unwrap();
    assert!(printed.contains("another user's") && printed.contains(&job), "{job}: {printed}");
    // The lock is renewed, and the guard gets the new deadline: the lock is not lost.
    thread::sleep(Duration::from_secs(7));
    assert!(is_alive(&job));
    assert_eq!(run(&["run", "a", "-n", "--", "true"]).status().unwrap().code(), Some(75));
    fs::write(dir.join("go"), "").unwrap();
    assert_eq!(holder.finish(), 137);
    assert_eq!(run(&["run", "a", "-n", "--", "true"]).status().unwrap().code(), Some(0));
}

#[test]
fn r13_a_loss_while_leftover_processes_end_kills_them_in_time() {
    let store = Store::new();
    let (mut run, shell, job) = start(&store, &["run", "a", "--json", "-t", "12s", "-k", "4s"], "");
    let outage = store.outage();
    kill(&shell, Signal::KILL);
    run.wait();
    assert!(!is_alive(&job));
    drop(outage);
}

#[test]
fn r13_no_round_of_elect_begins_beside_processes_of_the_last_one() {
    // The round may end in two ways: killed, or of its own will with a job in the background.
    for (end, is_killed) in [("wait", true), ("echo $! >/dev/null; exit 1", false)] {
        let store = Store::new();
        let job = "trap \"\" TERM; echo $$ > job; echo job; sleep 1000; true";
        // A zombie is dead, and PID 1 may be lazy.
        let look = "test -e job && grep State: /proc/$(cat job)/status 2>/dev/null | grep -qv Z && echo beside";
        let script = format!("{look}; echo $$; sh -c '{job}' & {end}");
        let args = ["elect", "a", "--json", "-k", "300ms"];
        let mut elect = store.start(&sh(&args, &script));
        let shell = elect.line();
        if is_killed {
            assert_eq!(elect.line(), "job");
            kill(&shell, Signal::KILL);
        }
        elect.event("restarting");
        elect.event("started");
        elect.signal(Signal::TERM);
        elect.wait();
        let lines = elect.lines();
        assert!(!lines.contains(&"beside".to_owned()), "{end}: {lines:?}");
    }
}

/// This run loses its lock after some seconds. TERM ends the shell alone, and KILL would come five
/// seconds later.
const LOSES: [&str; 9] = ["run", "a", "--json", "-t", "18s", "--max-hold", "6s", "-k", "5s"];

#[test]
fn r8_a_run_stopped_or_killed_during_the_end_leaves_no_process() {
    let leaves_nobody = |signal| {
        let store = Store::new();
        let (mut run, shell, job) = start(&store, &LOSES, TIMEOUT);
        run.event("lost");
        reaped(&shell);
        run.signal(signal);
        let look = format!("cat /proc/{job}/stat; true");
        let output = store.output(&sh(&["run", "a", "-w", "30s"], &look));
        let left = stdout(&output);
        assert!(left.is_empty() || left.contains(") Z"), "{signal:?}: {left}");
        run.signal(Signal::CONT);
        run.wait();
    };
    std::thread::scope(|scope| {
        for signal in [Signal::STOP, Signal::KILL] {
            scope.spawn(move || leaves_nobody(signal));
        }
    });
}

#[test]
fn r8_killing_run_and_the_shell_together_leaves_no_process() {
    let store = Store::new();
    let (mut run, shell, job) = start(&store, &LONG, TIMEOUT);
    wait_for_a_look();
    run.signal(Signal::KILL);
    kill(&shell, Signal::KILL);
    run.wait();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    assert!(!is_alive(&job));
}

#[test]
fn r6_a_loss_sends_term_to_jobs_in_groups_of_their_own() {
    let store = Store::new();
    let (mut run, _, job) = start(&store, &LOSES, TIMEOUT);
    run.event("lost");
    assert_eq!(run.line(), "TERM");
    fs::write(store.path("go"), "").unwrap();
    assert_eq!(run.finish(), 79);
    assert!(!is_alive(&job));
}

#[test]
fn r4_blocked_signals_change_nothing_and_stay_blocked_for_the_command() {
    let store = Store::new();
    let blocked = |args: &[&str], script: &str| {
        let mut command = Command::new("env");
        command
            .arg("--block-signal=CHLD,TERM,USR2")
            .arg(binary())
            .args(["-S", &store.url()])
            .args(args);
        command.args(["--", "sh", "-c", script]).env("LOCKKEEPER_CONFIG", "/dev/null");
        Process::start(&mut command)
    };
    // `run` notices the end, though no other event would wake it.
    let mut run = blocked(&["run", "a", "--on-lost", "ignore"], "exit 3");
    let start = Instant::now();
    assert_eq!(run.finish(), 3);
    assert!(start.elapsed() < LIMIT);
    let mut run = blocked(&["run", "a"], "echo ready; exec sleep 1000");
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    run.signal(Signal::INT);
    run.wait();
    let mut run = Command::new("env");
    run.arg("--block-signal=USR2").arg(binary()).args(["-S", &store.url(), "run", "a", "--"]);
    run.args(["grep", "SigBlk", "/proc/self/status"]).env("LOCKKEEPER_CONFIG", "/dev/null");
    assert_eq!(stdout(&run.output().unwrap()).trim(), "SigBlk:\t0000000000000800");
    assert_eq!(text(store.path("none")), "");
    eventually("free", || store.inspect("a")["state"] == "free");
}
