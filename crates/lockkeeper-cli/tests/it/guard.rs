//! R7 and R8: no process of a command outlives its lock, whatever happens to `run`.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::escaping::with_environment;
use crate::support::{
    self, Process, Store, binary, children, eventually, guard, is_alive, script, sh, text,
};

/// A run under the lock `a` with a long lease, so that no time-out ends it.
const LONG: [&str; 3] = ["run", "a", "--json"];
/// A loaded machine may take this long for an immediate action. It is far less than the lease.
const AT_ONCE: Duration = Duration::from_secs(5);

fn kill(pid: &str, signal: Signal) {
    support::signal(pid.parse().unwrap(), signal);
}

/// Starts a script that prints the processes to watch in a line.
fn start(store: &Store, args: &[&str], script: &str) -> (Process, Vec<String>) {
    let mut run = store.start(&sh(args, script));
    run.event("started");
    let pids = run.line().split(' ').map(str::to_owned).collect();
    (run, pids)
}

/// Kills `run`, and returns how long the other processes took to die.
fn kill_run(mut run: Process, pids: &[String]) -> Duration {
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    let killed = Instant::now();
    run.signal(Signal::KILL);
    run.wait();
    eventually("all is dead", || !pids.iter().any(|pid| is_alive(pid)));
    killed.elapsed()
}

#[test]
fn r8_kill_9_of_run_kills_the_group_at_once() {
    let store = Store::new();
    let (run, pids) = start(&store, &LONG, "sleep 1000 & echo $$ $!; wait");
    let took = kill_run(run, &pids);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn r8_kill_9_of_run_kills_what_ignores_every_signal() {
    let store = Store::new();
    let script = "trap '' INT TERM HUP QUIT USR1 USR2 TSTP TTIN TTOU; sh -c 'echo $PPID $$; sleep 1000; true'; true";
    let (run, pids) = start(&store, &LONG, script);
    let took = kill_run(run, &pids);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn r8_kill_9_of_run_kills_a_command_that_stopped_itself() {
    let store = Store::new();
    let (run, pids) = start(&store, &LONG, "echo $$; kill -STOP $$; sleep 1000");
    eventually("it is stopped", || text(format!("/proc/{}/stat", pids[0])).contains(") T"));
    let took = kill_run(run, &pids);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn r8_kill_9_of_run_kills_a_double_fork() {
    let store = Store::new();
    // The process in between ends at once, so the sleeper has lost its parent.
    let (run, pids) = start(
        &store,
        &LONG,
        "pid=$(sh -c 'sleep 1000 >/dev/null & echo $!'); echo $pid; sleep 1000",
    );
    let took = kill_run(run, &pids);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn r7_kill_reaches_grandchildren_in_groups_of_their_own() {
    let store = Store::new();
    // A shell with job control puts each job into a group, and timeout(1) makes itself the leader
    // of one.
    for script in [
        "exec bash -mc 'sleep 1000 & echo $$ $!; wait'",
        "timeout 1000 sh -c 'echo $PPID $$; sleep 1000; true'; true",
        "exec timeout 1000 sh -c 'echo $PPID $$; sleep 1000; true'",
    ] {
        let (run, pids) = start(&store, &LONG, script);
        let took = kill_run(run, &pids);
        assert!(took < AT_ONCE, "{script}: {took:?}");
        eventually("the lock is free", || store.inspect("a")["state"] == "free");
    }
}

#[test]
fn r7_kill_reaches_what_is_started_while_it_looks() {
    let store = Store::new();
    for limit in ["", "ulimit -n 64; "] {
        // Each process makes itself the leader of a group some time after its start; there are more
        // processes than descriptors.
        let script = "while :; do timeout 1000 sleep 1000 >/dev/null 2>&1 & i=$((i + 1)); \
                      [ $i = 100 ] && echo many; sleep 0.002; done";
        let shell = format!(
            "{limit}exec {} -S {} run a --json -- sh -c '{script}'",
            binary().display(),
            store.url()
        );
        let mut run = Process::start(Command::new("sh").args(["-c", &shell]));
        let token = run.event("acquired")["token"].as_str().unwrap().to_owned();
        assert_eq!(run.line(), "many");
        run.signal(Signal::KILL);
        run.wait();
        // The next holder finds no process.
        assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
        let left = with_environment(&format!("LOCKKEEPER_FENCING_TOKEN={token}\0"));
        left.iter().for_each(|pid| kill(pid, Signal::KILL));
        assert_eq!(left, Vec::<String>::new(), "{limit}");
    }
}

#[test]
fn r7_a_proc_of_another_namespace_is_not_believed() {
    let store = Store::new();
    let script = "(trap \"\" TERM; while :; do sleep 0.02; date +%s%N > beat; done) & trap \"exit 0\" TERM; \
                  echo ready; wait";
    let shell = format!(
        "{} -S {} run a --json -t 3s -- sh -c '{script}'; date +%s%N > end",
        binary().display(),
        store.url()
    );
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--pid", "--fork", "--kill-child", "sh", "-c", &shell])
        .current_dir(store.path(""));
    let mut namespace = Process::start(&mut command);
    namespace.event("started");
    assert_eq!(namespace.line(), "ready");
    let outage = store.outage();
    namespace.event("lost");
    assert_eq!(namespace.finish(), 0);
    drop(outage);
    let time = |name: &str| text(store.path(name)).trim().parse::<u128>().unwrap_or(0);
    // Killed before the release was tried, not by the end of the namespace.
    let (beat, end) = (time("beat"), time("end"));
    assert!(beat + 300_000_000 < end, "beat at {beat}, end at {end}");
}

#[test]
fn r7_a_loss_kills_grandchildren_in_groups_of_their_own() {
    let store = Store::new();
    // In the second case TERM reaches only the parent, which ends at once.
    for script in [
        "exec bash -mc 'trap : TERM; sleep 1000 & echo $$ $!; wait; wait'",
        "trap 'exit 3' TERM; timeout 1000 sh -c 'echo $PPID $$; sleep 1000; true' & wait",
    ] {
        let (mut run, pids) = start(&store, &["run", "a", "--json", "-t", "9s"], script);
        let outage = store.outage();
        run.event("lost");
        assert_eq!(run.finish(), 79, "{script}: {}", run.rest());
        assert!(!pids.iter().any(|pid| is_alive(pid)), "{script}");
        drop(outage);
    }
}

#[test]
fn r7_a_daemon_that_left_group_and_parents_is_left_alone() {
    let store = Store::new();
    let (mut run, pids) =
        start(&store, &LONG, "echo $(sh -c 'setsid sleep 1000 >/dev/null & echo $!'); sleep 1000");
    // True once setsid(1) has made its session.
    eventually("it is a daemon", || text(format!("/proc/{}/comm", pids[0])).starts_with("sleep"));
    assert!(
        !children(run.pid()).contains(&pids[0]),
        "it has lost its parent, and got another one than init"
    );
    // No event shows a look, and there are two a second: a process that has just been started may
    // be a job.
    thread::sleep(Duration::from_secs(3));
    run.signal(Signal::KILL);
    run.wait();
    eventually("the lock is free", || store.inspect("a")["state"] == "free");
    assert!(is_alive(&pids[0]));
    kill(&pids[0], Signal::KILL);
}

/// A daemon starts others all the time, and no look saw the last ones.
#[test]
fn r7_what_a_daemon_starts_makes_it_no_job() {
    let store = Store::new();
    let daemon = store.path("daemon");
    script(&daemon, "#!/bin/sh\nwhile :; do sleep 0.02; done");
    for signal in [Signal::TERM, Signal::KILL] {
        let start_it =
            format!("echo $(sh -c 'setsid {} >/dev/null & echo $!'); sleep 1000", daemon.display());
        let (mut run, pids) = start(&store, &LONG, &start_it);
        eventually("it is a daemon", || {
            text(format!("/proc/{}/comm", pids[0])).starts_with("daemon")
        });
        // No event shows a look, and there are two a second.
        thread::sleep(Duration::from_secs(3));
        run.signal(signal);
        run.wait();
        eventually("the lock is free", || store.inspect("a")["state"] == "free");
        assert!(is_alive(&pids[0]), "{signal:?}");
        kill(&pids[0], Signal::KILL);
    }
}

#[test]
fn r8_the_next_command_starts_after_the_old_groups_last_process() {
    let store = Store::new();
    for _ in 0..10 {
        let script = "trap '' TERM; for i in 1 2 3 4 5 6 7 8; do sleep 1000 & pids=\"$pids $!\"; done; echo $$$pids; wait";
        let (mut run, pids) = start(&store, &LONG, script);
        let look = format!(
            "date +%s%N; for p in {}; do cat /proc/$p/stat 2>/dev/null; done; true",
            pids.join(" ")
        );
        let mut next = store.queue(&sh(&["run", "a"], &look), "a", 0);
        let killed = Instant::now();
        run.signal(Signal::KILL);
        run.wait();
        next.line();
        let took = killed.elapsed();
        assert_eq!(next.finish(), 0);
        let left: Vec<String> =
            next.lines().into_iter().filter(|stat| !stat.contains(") Z")).collect();
        assert!(left.is_empty(), "{left:#?}");
        assert!(took < AT_ONCE, "{took:?}");
    }
}

#[test]
fn r8_a_stopped_runs_command_is_dead_before_the_next_one_starts() {
    let store = Store::new();
    let script = "trap '' TERM; sleep 1000 & echo $$ $!; wait";
    let (mut run, pids) = start(&store, &["run", "a", "--json", "-t", "8s"], script);
    let look =
        format!("for p in {}; do cat /proc/$p/stat 2>/dev/null; done; echo done", pids.join(" "));
    let mut next = store.queue(&sh(&["run", "a"], &look), "a", 0);
    run.signal(Signal::STOP);
    assert_eq!(next.finish(), 0);
    let seen = next.lines();
    let left: Vec<&String> =
        seen.iter().filter(|stat| stat.contains(") ") && !stat.contains(") Z")).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(seen.last().unwrap(), "done");
    run.signal(Signal::CONT);
    assert_eq!(run.finish(), 79);
    assert_eq!(run.events().last().unwrap(), "exited");
}

#[test]
fn r8_a_run_that_resumes_between_kill_and_deadline_has_lost() {
    let store = Store::new();
    for _ in 0..2 {
        let (mut run, pids) =
            start(&store, &["run", "a", "--json", "-t", "6s"], "echo $$; exec sleep 1000");
        run.signal(Signal::STOP);
        // The guard leaves a quarter of a second between its kill and the end of the lock.
        eventually("the command is killed", || !is_alive(&pids[0]));
        run.signal(Signal::CONT);
        assert_eq!(run.finish(), 79);
        assert!(run.events().iter().any(|event| event == "lost"));
    }
}

#[test]
fn r8_a_run_stopped_for_less_than_its_lease_goes_on() {
    let store = Store::new();
    let (mut run, _) = start(&store, &["run", "a", "--json", "-t", "30s"], "echo $$; cat; exit 4");
    run.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(500));
    run.signal(Signal::CONT);
    assert_eq!(run.finish(), 4);
}

/// Two streams of signals: WINCH comes as soon as the last one was passed on, and the guard looks
/// before each TERM.
#[test]
fn r8_the_guard_gets_renewals_under_a_stream_of_signals() {
    let store = Store::new();
    for (signal, pause) in [(Signal::WINCH, 20_000), (Signal::TERM, 100)] {
        let end = store.path("end");
        let many = "i=0; while [ $i -lt 200 ]; do (trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & i=$((i + 1)); done";
        let waits = format!("until [ -e {} ]; do sleep 0.02; done", end.display());
        let script = format!("trap : TERM; {many}; echo $$; {waits}; exit 4");
        let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3s", "-k", "500ms"], &script));
        let shell = run.line();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && is_alive(&shell) {
            run.signal(signal);
            thread::sleep(Duration::from_micros(pause));
        }
        fs::write(&end, "").unwrap();
        assert_eq!(run.wait().code(), Some(4), "{}", run.rest());
        fs::remove_file(end).unwrap();
    }
}

#[test]
fn r8_a_kill_in_the_moment_of_the_start_leaves_no_command() {
    let store = Store::new();
    for step in 0..40 {
        let mut run = store.start(&["run", "a", "--json", "--", "sleep", "1000"]);
        let token = run.event("acquired")["token"].as_str().unwrap().to_owned();
        thread::sleep(Duration::from_micros(100) * step);
        run.signal(Signal::KILL);
        run.wait();
        // The next holder finds no process.
        assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
        let mark = format!("LOCKKEEPER_FENCING_TOKEN={token}\0");
        assert_eq!(with_environment(&mark), Vec::<String>::new(), "killed after {step} steps");
    }
}

#[test]
fn r8_the_guard_ignores_what_ends_others() {
    let store = Store::new();
    let (run, mut pids) = start(&store, &LONG, "echo $$; exec sleep 1000");
    let guard = guard(&run);
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
    ] {
        kill(&guard, signal);
    }
    assert!(!text(format!("/proc/{guard}/stat")).contains(") T"));
    pids.push(guard);
    let took = kill_run(run, &pids);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn r8_the_guard_is_gone_before_run_is() {
    let store = Store::new();
    let mut run = store.hold("a");
    let guard = guard(&run);
    assert_eq!(run.finish(), 0);
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap());
}

#[test]
fn r8_a_guard_that_is_stopped_keeps_nobody() {
    let store = Store::new();
    let mut run = store.start(&sh(&LONG, "echo ready; cat; exit 4"));
    assert_eq!(run.line(), "ready");
    let guard = guard(&run);
    kill(&guard, Signal::STOP);
    eventually("it is stopped", || text(format!("/proc/{guard}/stat")).contains(") T"));
    assert_eq!(run.finish(), 4);
    assert!(!is_alive(&guard));
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn r8_a_guard_that_was_stopped_reads_all_orders_before_a_kill() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "6s", "-k", "500ms"], "echo ready; cat; exit 4"));
    assert_eq!(run.line(), "ready");
    let guard = guard(&run);
    kill(&guard, Signal::STOP);
    // Long enough for the first deadline to pass.
    thread::sleep(Duration::from_millis(7500));
    kill(&guard, Signal::CONT);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(run.finish(), 4);
}

#[test]
fn r8_a_guard_is_left_in_peace_when_the_loss_changes_nothing() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "6s", "--on-lost", "ignore"], "echo ready; cat"));
    assert_eq!(run.line(), "ready");
    let _outage = store.outage();
    run.event("lost");
    let status = format!("/proc/{}/status", guard(&run));
    let woken = || {
        let status = text(&status);
        let line =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u32>().unwrap()
    };
    let before = woken();
    thread::sleep(Duration::from_secs(1));
    assert!(woken() - before < 10, "{before}, {}", woken());
    assert_eq!(run.finish(), 0);
}

#[test]
fn r8_the_guard_has_no_credential_and_says_nothing() {
    let store = Store::new();
    let mut command = store.command(&["run", "a", "--json", "--", "cat"]);
    // The guard keeps the variables that the loader needs to start it; a test runner may have set
    // them.
    let mut run =
        Process::start(command.env("LOCKKEEPER_PASSWORD", "hunter2").env_remove("LD_LIBRARY_PATH"));
    run.event("started");
    let environment = text(format!("/proc/{}/environ", guard(&run)));
    assert_eq!(environment, "");
    // Not even when a process starts it by mistake.
    for role in ["__guard", "__start"] {
        let output = Command::new(binary()).arg(role).output().unwrap();
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
    assert_eq!(run.finish(), 0);
}
