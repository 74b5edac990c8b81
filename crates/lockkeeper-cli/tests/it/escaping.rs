//! R7: no process of a command escapes its end, however late it was started and however little of
//! it is visible.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lockkeeper::store::Evict;
use rustix::process::Signal;

use crate::support::{
    self, Process, Store, children, eventually, guard, is_alive, script, sh, text,
};

/// The living processes with a variable in their environment.
pub(crate) fn with_environment(variable: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let has = |pid: &String| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|it| String::from_utf8_lossy(&it).contains(variable))
    };
    pids.filter(has).filter(|pid| is_alive(pid)).collect()
}

/// The processes that are left of the command of an acquired run, as numbers. The run is killed.
fn left(run: &mut Process, code: i32) -> Vec<String> {
    let token = run.event("acquired")["token"].as_str().unwrap().to_owned();
    left_of(run, &token, code)
}

fn left_of(run: &mut Process, token: &str, code: i32) -> Vec<String> {
    assert_eq!(run.wait().code(), Some(code), "{}", run.rest());
    let left = with_environment(&format!("LOCKKEEPER_FENCING_TOKEN={token}\0"));
    left.iter().for_each(|pid| kill(pid, Signal::KILL));
    left
}

fn kill(pid: &str, signal: Signal) {
    support::signal(pid.parse().unwrap(), signal);
}

/// Here `run` itself kills, and the guard does not.
#[test]
fn r7_a_killing_loss_reaches_processes_started_since_the_last_look() {
    let store = Store::new();
    let script = "while :; do timeout 1000 sleep 1000 >/dev/null 2>&1 & sleep 0.002; done";
    let mut run = store
        .start(&sh(&["run", "a", "--json", "--max-hold", "700ms", "--on-lost", "kill"], script));
    assert_eq!(left(&mut run, 79), Vec::<String>::new());
}

/// Each job makes itself the leader of a group, and its parent ends when it gets TERM.
#[test]
fn r7_a_loss_reaches_processes_started_between_look_and_signal() {
    let store = Store::new();
    for _ in 0..3 {
        let script = "while :; do timeout 1000 sleep 1000 >/dev/null 2>&1 & sleep 0.006; done";
        let args = ["run", "a", "--json", "--max-hold", "1200ms", "-k", "500ms"];
        let mut run = store.start(&sh(&args, script));
        assert_eq!(left(&mut run, 79), Vec::<String>::new());
    }
}

/// The process is in a session of its own: no look happened between its start and the end of its
/// parent.
#[test]
fn r7_a_loss_reaches_new_sessions_started_after_the_signal() {
    let store = Store::new();
    let args = ["run", "a", "--json", "-t", "15s", "-k", "3s", "--max-hold", "1s"];
    let job = "setsid sleep 1000 >/dev/null 2>&1";
    let waits = "trap 'heard=1' TERM; while [ -z \"$heard\" ]; do sleep 0.05; done";
    let mut run = store.start(&sh(&args, &format!("{waits}; {job} & sleep 0.2; exit 0")));
    assert_eq!(left(&mut run, 79), Vec::<String>::new());
}

/// The environment of the process is cleared, so only a look while its parent lives can find it.
/// Meanwhile the guard gets the deadline more often than that.
#[test]
fn r7_an_ending_command_is_looked_at_up_to_its_deadline() {
    let store = Store::new();
    let args = ["run", "a", "--json", "-t", "15s", "-k", "2400ms", "--max-hold", "1s"];
    let job = "env -i JOB=of-$LOCKKEEPER_FENCING_TOKEN-$$ setsid sleep 1000 >/dev/null 2>&1";
    let waits = "trap 'heard=1' TERM; while [ -z \"$heard\" ]; do sleep 0.05; done";
    let mut run = store.start(&sh(&args, &format!("{waits}; {job} & sleep 2; exit 0")));
    let token = run.event("acquired")["token"].as_str().unwrap().to_owned();
    let shell = run.event("started")["pid"].to_string();
    assert_eq!(run.wait().code(), Some(79), "{}", run.rest());
    let left = with_environment(&format!("JOB=of-{token}-{shell}\0"));
    left.iter().for_each(|pid| kill(pid, Signal::KILL));
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn r13_another_round_begins_when_nothing_of_the_last_one_is_left() {
    let store = Store::new();
    let mut elect = store.start(&sh(
        &["elect", "a"],
        "setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.1; exit 1",
    ));
    let (first, second) = (elect.line(), elect.line());
    let lives = is_alive(&first);
    elect.signal(Signal::TERM);
    elect.wait();
    [first, second].iter().filter(|pid| is_alive(pid)).for_each(|pid| kill(pid, Signal::KILL));
    assert!(!lives);
}

/// The command starts this process when it gets TERM, and leaves.
#[test]
fn r13_processes_started_after_term_get_it_too() {
    let store = Store::new();
    let up = store.path("up");
    let job = format!(
        "trap \"echo told; exit\" TERM; : >{0}; while :; do sleep 0.02; done",
        up.display()
    );
    let waits = "trap 'heard=1' TERM; echo ready; while [ -z \"$heard\" ]; do sleep 0.02; done";
    let leaves =
        format!("sh -c '{job}' & until [ -e {0} ]; do sleep 0.02; done; exit 0", up.display());
    let mut run = store.start(&sh(&["run", "a"], &format!("{waits}; {leaves}")));
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.line(), "told");
    assert_eq!(run.finish(), 0);
}

/// As a service manager does that terminates all of a service at once. The command has ended when
/// `run` looks.
#[test]
fn r13_a_signal_to_both_counts_even_if_seen_after_the_commands_end() {
    let store = Store::new();
    let script =
        "trap 'exit 0' TERM; (trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & echo ready; wait";
    let mut run = store.start(&sh(&["run", "a", "--json", "-k", "300ms"], script));
    let token = run.event("acquired")["token"].as_str().unwrap().to_owned();
    let shell = run.event("started")["pid"].to_string();
    assert_eq!(run.line(), "ready");
    run.signal(Signal::STOP);
    run.signal(Signal::TERM);
    kill(&shell, Signal::TERM);
    eventually("the command has ended", || !is_alive(&shell));
    run.signal(Signal::CONT);
    assert_eq!(left_of(&mut run, &token, 0), Vec::<String>::new());
}

/// The command goes on after TERM, and a process that loses its parent from then on is a child of
/// `run`.
#[test]
fn r7_orphans_of_a_command_that_outlives_a_signal_are_reaped() {
    let store = Store::new();
    let script = "trap 'echo heard' TERM; echo ready; while :; do \
                  sh -c 'setsid sleep 0.02 >/dev/null & echo $!'; sleep 0.05; done";
    let run = store.start(&sh(&["run", "a", "--json"], script));
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    while run.line() != "heard" {}
    let orphans = [(); 5].map(|()| run.line());
    eventually("all are reaped", || {
        !orphans.iter().any(|pid| fs::exists(format!("/proc/{pid}")).unwrap())
    });
    run.signal(Signal::KILL);
}

/// Its shell and `run` end at once, before any look.
#[test]
fn r8_an_unseen_job_dies_with_its_shell_and_run() {
    let store = Store::new();
    let job = "timeout 1000 sh -c 'trap \"\" TERM; echo $$; sleep 1000; true'";
    for _ in 0..5 {
        let run = store.start(&sh(&["run", "a", "--json"], &format!("echo $$; {job}; true")));
        let (shell, job) = (run.line(), run.line());
        kill(&shell, Signal::KILL);
        run.signal(Signal::KILL);
        assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
        let lives = is_alive(&job);
        if lives {
            kill(&job, Signal::KILL);
        }
        assert!(!lives);
    }
}

/// No look happens before these: the job was just started, in a group of its own, when its shell
/// ends.
#[test]
fn r13_an_unseen_job_keeps_the_lock_when_a_signal_ends_its_shell() {
    let store = Store::new();
    let ends = ["kill -9 $$", "kill -USR1 $PPID; wait", "kill -TERM $PPID; wait"];
    for (end, by) in ends.iter().flat_map(|end| [(end, "timeout 1000"), (end, "setsid")]) {
        let script = format!("{by} sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.1; {end}");
        let mut run = store.start(&sh(&["run", "a", "--json", "-k", "300ms"], &script));
        let job = run.line();
        run.wait();
        let lives = is_alive(&job);
        if lives {
            kill(&job, Signal::KILL);
        }
        assert!(!lives, "{by}: {end}");
    }
}

/// A shell that sees the end of its job before its own TERM would go on.
#[test]
fn r4_a_shell_takes_no_next_step_when_its_job_is_terminated() {
    let store = Store::new();
    for _ in 0..20 {
        let script = "timeout 1000 sh -c 'echo ready; sleep 1000; true'; echo next";
        let mut run = store.start(&sh(&["run", "a", "--json"], script));
        assert_eq!(run.line(), "ready");
        run.signal(Signal::TERM);
        assert_eq!(run.finish(), 143, "{}", run.rest());
        assert_eq!(run.lines(), Vec::<String>::new());
    }
}

/// The guard is stopped, and does not answer that it has looked.
#[test]
fn r7_a_guard_that_does_not_answer_makes_no_kill_late() {
    let store = Store::new();
    let script = "trap 'touch heard' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3s", "-k", "100ms"], script));
    assert_eq!(run.line(), "ready");
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    kill(&guard(&run), Signal::STOP);
    store.break_lock("a", token, Evict::Mark);
    assert_eq!(run.finish(), 79);
    // The time to kill came before the guard's time to answer was over.
    assert!(!store.path("heard").exists());
}

/// The process has lost its parent by the signal, is in another session than the command, which
/// goes on, and has cleared its environment.
#[test]
fn r7_a_replacing_guard_knows_that_the_command_is_being_ended() {
    let store = Store::new();
    let job = "#!/bin/sh\ntrap '' TERM; echo $$; exec sleep 1000";
    script(&store.path("job"), job);
    let job = "sh -c 'env -i setsid ./job; true' & trap : TERM; while :; do sleep 0.02; done";
    let mut run = Process::start(
        store.command(&sh(&["run", "a", "--json"], job)).current_dir(store.path("")),
    );
    let job = run.line();
    eventually("it has begun", || text(format!("/proc/{job}/comm")).starts_with("sleep"));
    run.signal(Signal::TERM);
    eventually("it has lost its parent", || children(run.pid()).contains(&job));
    kill(&guard(&run), Signal::KILL);
    let stands_in = |line: String| line.contains("another guard has replaced it");
    eventually("another guard", || stands_in(run.error_line()));
    run.signal(Signal::KILL);
    run.wait();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let lives = is_alive(&job);
    if lives {
        kill(&job, Signal::KILL);
    }
    assert!(!lives);
}

/// If `/proc` shows only readable processes, a process of an execute-only program is hidden.
#[test]
fn r7_what_proc_hides_is_not_dead() {
    nothing_hidden_is_left(&["-m"]);
}

/// The first process of a container is visible to the process that started it, so its visibility
/// does not show that others are hidden.
#[test]
fn r7_a_process_hidden_beside_a_visible_first_process_is_not_dead() {
    nothing_hidden_is_left(&["-m", "--pid", "--fork", "--kill-child"]);
}

fn nothing_hidden_is_left(namespaces: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount a /proc that hides processes");
        return;
    }
    let store = Store::new();
    let prepare = "mkdir theirs && chown 65534:65534 theirs && cp $(command -v sh) worker && chmod 711 worker";
    let prepared =
        Command::new("sh").args(["-c", prepare]).current_dir(store.path("")).status().unwrap();
    assert!(prepared.success());
    let (url, dir) =
        (format!("file:{}", store.path("theirs/locks.db").display()), store.path("theirs"));
    let work = "trap \"\" TERM; while :; do sleep 0.02; date +%s%N > beat; done";
    for by in ["", "timeout 1000 "] {
        let script = format!(
            "trap 'exit 3' TERM; {by}../worker -c '{work}' & until test -e beat; do sleep 0.02; done; wait"
        );
        let run = ["-S", &url, "run", "a", "--json", "--max-hold", "2s", "-k", "500ms"];
        let ours = store.as_user(&sh(&run, &script));
        let mount = "mount -t proc -o hidepid=2 proc /proc && exec \
                     setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '\"$@\"; echo $? > code; exec sleep 1000' \
                     sh \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(namespaces)
            .args(["sh", "-c", mount, "sh"])
            .arg(ours.get_program())
            .args(ours.get_args());
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LOCKKEEPER_CONFIG", "/dev/null");
        let mut shell = Process::start(command.current_dir(&dir));
        let token = shell.event("acquired")["token"].as_str().unwrap().to_owned();
        eventually("run has ended", || text(dir.join("code")).ends_with('\n'));
        let left = with_environment(&format!("LOCKKEEPER_FENCING_TOKEN={token}\0"));
        // Of the namespace, if the shell has one of its own.
        children(shell.pid()).iter().for_each(|first| kill(first, Signal::KILL));
        shell.signal(Signal::KILL);
        left.iter().for_each(|pid| kill(pid, Signal::KILL));
        assert_eq!((text(dir.join("code")).trim(), left), ("79", Vec::new()), "{by}");
        assert!(dir.join("beat").exists());
        for file in ["beat", "code"] {
            fs::remove_file(dir.join(file)).unwrap();
        }
    }
}

#[test]
fn r7_a_daemon_that_is_started_after_a_reload_is_left_alone() {
    let store = Store::new();
    let start = "echo $(sh -c \"setsid sleep 1000 >/dev/null & echo \\$!\")";
    let wait = "until test -e go; do sleep 0.02; done";
    let script = format!("trap : HUP; echo $$; {wait}; {start}; sleep 1000");
    let mut run = store.start(&sh(&["run", "a", "--json"], &script));
    let shell = run.line();
    run.signal(Signal::HUP);
    // No event shows that a HUP counts as one that changed nothing.
    thread::sleep(Duration::from_secs(8));
    fs::write(store.path("go"), "").unwrap();
    let daemon = run.line();
    // True once setsid(1) has made its session.
    eventually("it is a daemon", || text(format!("/proc/{daemon}/comm")).starts_with("sleep"));
    assert!(!children(run.pid()).contains(&daemon), "it has got another parent than init");
    // Nor of a look: one that has just been started may be a job.
    thread::sleep(Duration::from_secs(3));
    kill(&shell, Signal::KILL);
    assert_eq!(run.finish(), 137);
    assert!(is_alive(&daemon));
    kill(&daemon, Signal::KILL);
}
