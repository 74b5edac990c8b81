//! The start of the command: only beside a ready guard and under a held lock, and as the same
//! program that `run` was.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::support::{
    Process, Store, binary, children, eventually, is_alive, sh, signal, stderr, stdout, text,
};

/// The guard process of a run, under any name; not `other`.
fn guard_but(run: &Process, other: &str) -> String {
    let mut found = None;
    eventually("the guard", || {
        let is_guard = |pid: &String| {
            pid != other && text(format!("/proc/{pid}/cmdline")).contains("__guard\0")
        };
        found = children(run.pid()).into_iter().find(is_guard);
        found.is_some()
    });
    found.unwrap()
}

fn kill(pid: &str) {
    signal(pid.parse().unwrap(), Signal::KILL);
}

/// Kills `run`; the next holder finds none of these processes.
fn next_finds_nobody(store: &Store, mut run: Process, pids: &str) {
    let look = format!("for p in {pids}; do cat /proc/$p/stat 2>/dev/null; done; echo done");
    let mut next = store.queue(&sh(&["run", "a"], &look), "a", 0);
    run.signal(Signal::KILL);
    run.wait();
    assert_eq!(next.finish(), 0);
    let lines = next.lines();
    let left: Vec<_> =
        lines.iter().filter(|line| line.contains(") ") && !line.contains(") Z")).collect();
    assert!(left.is_empty() && lines.last().unwrap() == "done", "{lines:#?}");
}

#[test]
fn r8_a_guard_that_is_killed_is_replaced_by_another_one() {
    let store = Store::new();
    // The second process has lost its parent, and is in a group of its own.
    let script = "trap '' TERM; timeout 1000 sh -c 'echo $PPID $$ $(sleep 1000 >&2 & echo $!); sleep 1000; true' & \
                  wait";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3m"], script));
    run.event("started");
    let pids = run.line();
    let mut guard = String::new();
    for _ in 0..3 {
        guard = guard_but(&run, &guard);
        kill(&guard);
        while !run.error_line().contains("the guard process ended") {}
    }
    guard_but(&run, &guard);
    next_finds_nobody(&store, run, &pids);
}

/// The command has made a session of its own. A process of its old group stays, without its parent.
#[test]
fn r8_a_replacing_guard_knows_the_original_group_of_the_command() {
    let store = Store::new();
    let script =
        "(sleep 1000 >/dev/null 2>&1 & echo $!); exec setsid sh -c 'echo out; exec sleep 1000'";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "3m"], script));
    run.event("started");
    let left = run.line();
    assert_eq!(run.line(), "out");
    // No event shows a look, and there are two a second.
    let looks = Duration::from_secs(2);
    thread::sleep(looks);
    let guard = guard_but(&run, "");
    kill(&guard);
    guard_but(&run, &guard);
    thread::sleep(looks);
    next_finds_nobody(&store, run, &left);
}

#[test]
fn r8_a_new_guard_gets_renewals_too() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "15s", "-k", "500ms"], "echo ready; cat; exit 4"));
    assert_eq!(run.line(), "ready");
    let guard = guard_but(&run, "");
    kill(&guard);
    let pid = guard_but(&run, &guard);
    // Longer than the lease.
    thread::sleep(Duration::from_secs(17));
    assert!(is_alive(&pid));
    assert_eq!(run.finish(), 4);
    assert!(!is_alive(&pid));
}

/// One is left: too few for a guard.
fn leave_too_few_descriptors(run: &Process) {
    let fds = fs::read_dir(format!("/proc/{}/fd", run.pid())).unwrap();
    let fds: Vec<u64> =
        fds.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let free = (0..).find(|fd| !fds.contains(fd)).unwrap();
    let limit = Rlimit { current: Some(free + 1), maximum: Some(4096) };
    prlimit(Pid::from_raw(run.pid().cast_signed()), Resource::Nofile, limit).unwrap();
}

/// That there can be no other one is found while a signal is handed on.
#[test]
fn r8_a_guard_that_ends_before_a_requested_look_is_noticed() {
    let store = Store::new();
    let mut run = store
        .start(&sh(&["run", "a", "--json"], "trap '' HUP; echo $$; while :; do sleep 0.02; done"));
    let pid = run.line();
    let guard = guard_but(&run, "");
    leave_too_few_descriptors(&run);
    signal(guard.parse().unwrap(), Signal::STOP);
    run.signal(Signal::HUP);
    // The guard is asked to look, and does not answer.
    thread::sleep(Duration::from_millis(100));
    kill(&guard);
    assert_eq!(run.finish(), 71);
    let rest = run.rest();
    assert!(
        rest.contains("no guard process, so the command was ended: Too many open files"),
        "{rest}"
    );
    assert!(!is_alive(&pid));
}

#[test]
fn r8_a_run_without_a_further_guard_ends_its_command_and_reports_it() {
    let store = Store::new();
    let mut run = store.start(&sh(&["run", "a", "--json"], "echo $$; exec sleep 1000"));
    let pid = run.line();
    let guard = guard_but(&run, "");
    leave_too_few_descriptors(&run);
    kill(&guard);
    assert_eq!(run.finish(), 71);
    let rest = run.rest();
    assert!(
        rest.contains("no guard process, so the command was ended: Too many open files"),
        "{rest}"
    );
    assert!(!is_alive(&pid));
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn r8_a_run_stopped_before_the_start_for_a_whole_lease_starts_nothing() {
    let store = Store::new();
    let time = |name: &str| text(store.path(name)).trim().parse::<u128>().ok();
    for _ in 0..4 {
        let mut run = store.start(&sh(&["run", "a", "--json", "-t", "4s"], "date +%s%N > ran"));
        run.event("acquired");
        run.signal(Signal::STOP);
        assert_eq!(store.code(&sh(&["run", "a"], "date +%s%N > next")), 0);
        run.signal(Signal::CONT);
        let code = run.finish();
        // The command was faster than the test, or did not run at all.
        let (ran, next) = (time("ran"), time("next").unwrap());
        assert!(
            ran.is_none_or(|ran| ran < next),
            "the command ran at {ran:?}, the next one at {next}"
        );
        assert!(ran.is_some() || code == 79, "{code}: {}", run.rest());
        let _ = fs::remove_file(store.path("ran"));
    }
}

#[test]
fn r4_the_command_starts_with_the_signals_that_run_was_given() {
    let store = Store::new();
    let list = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status";
    for given in ["", "trap '' HUP USR1; "] {
        let shell = format!(
            "{given}{list}; exec {} -S {} run a -- {list}",
            binary().display(),
            store.url()
        );
        // With a PATH the standard library forks; a spawned process would ignore signals that its
        // parent does not ignore.
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &shell])
            .env("PATH", std::env::var("PATH").unwrap())
            .output()
            .unwrap();
        let lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
        assert_eq!(lines[..3], lines[3..], "{given}");
        assert!(lines[1].starts_with("SigIgn:\t00000000"), "{lines:?}");
    }
}

#[test]
fn a_session_of_its_own_keeps_the_lock() {
    let store = Store::new();
    let mut run =
        store.start(&["run", "a", "--json", "--", "setsid", "sh", "-c", "echo $$; read x; exit 3"]);
    let pid = run.event("started")["pid"].to_string();
    assert_eq!(run.line(), pid);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75);
    assert_eq!(run.finish(), 3);
    // The command is ended with its lock like any other command.
    let mut run = store.start(&[
        "run",
        "a",
        "--json",
        "--",
        "setsid",
        "sh",
        "-c",
        "sleep 1000 & echo $$ $!; wait",
    ]);
    run.event("started");
    let pids = run.line();
    next_finds_nobody(&store, run, &pids);
}

/// A guard that gets orders from the test, and the socket with its answers.
fn guard_alone(orders: &[(u8, u64)]) -> (Child, UnixStream) {
    let (mut line, far) = UnixStream::pair().unwrap();
    for (kind, number) in orders {
        line.write_all(&[&[*kind][..], &number.to_le_bytes()].concat()).unwrap();
    }
    let mut guard = Command::new(binary());
    (
        guard
            .arg("__guard")
            .env_clear()
            .stdin(OwnedFd::from(far))
            .process_group(0)
            .spawn()
            .unwrap(),
        line,
    )
}

#[test]
fn r8_a_guard_past_its_deadline_kills_a_command_named_later() {
    let mut sleeper = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    // At the first nanosecond of the clock.
    let (mut guard, mut line) = guard_alone(&[(b'k', 1)]);
    thread::sleep(Duration::from_millis(300));
    assert!(guard.try_wait().unwrap().is_none());
    line.write_all(&[&b"w"[..], &u64::from(sleeper.id()).to_le_bytes()].concat()).unwrap();
    assert_eq!(sleeper.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(guard.wait().unwrap().code(), Some(3));
}

#[test]
fn r8_a_guard_that_knows_no_command_goes_with_its_run() {
    let (mut guard, line) = guard_alone(&[(b'k', 1)]);
    drop(line);
    assert!(guard.wait().unwrap().success());
}

/// The dynamic loader of this very program.
fn loader() -> PathBuf {
    let maps = text("/proc/self/maps");
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let is_loader =
        |path: &&str| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"));
    paths.clone().find(is_loader).unwrap_or_else(|| panic!("no loader in {maps}")).into()
}

/// A run of a script that prints processes. The script is ended with its lock.
fn is_guarded(store: &Store, command: &mut Command) {
    let script = "trap '' TERM; sleep 1000 & echo $$ $!; wait";
    command.args(["-S", &store.url(), "run", "a", "--json", "--", "sh", "-c", script]);
    let mut run = Process::start(command.env("LOCKKEEPER_CONFIG", "/dev/null"));
    run.event("started");
    let pids = run.line();
    guard_but(&run, "");
    next_finds_nobody(store, run, &pids);
}

#[test]
fn r8_a_program_that_is_started_by_its_loader_has_a_guard() {
    let store = Store::new();
    is_guarded(&store, Command::new(loader()).arg(binary()));
    is_guarded(
        &store,
        Command::new(loader()).args(["--argv0", "lk", "--library-path", "/nowhere"]).arg(binary()),
    );
}

#[test]
fn r8_a_program_that_needs_a_library_variable_has_a_guard() {
    let store = Store::new();
    // The same program with a renamed library, which only the variable finds.
    let mut program = fs::read(binary()).unwrap();
    let (name, other) = (b"libgcc_s.so.1\0", b"libgcc_x.so.1\0");
    let at =
        program.windows(name.len()).position(|bytes| bytes == name).expect("a program with libgcc");
    program[at..at + name.len()].copy_from_slice(other);
    let maps = text("/proc/self/maps");
    let library = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libgcc_s"));
    fs::copy(library.unwrap(), store.path("libgcc_x.so.1")).unwrap();
    fs::write(store.path("program"), program).unwrap();
    // Another process copies the file: a file that is open for writing cannot be executed.
    let copied =
        Command::new("cp").arg(store.path("program")).arg(store.path("copy")).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(store.path("copy"), fs::Permissions::from_mode(0o755)).unwrap();
    let alone =
        Command::new(store.path("copy")).arg("--version").stdin(Stdio::null()).output().unwrap();
    assert!(stderr(&alone).contains("libgcc_x"), "{alone:?}");
    is_guarded(&store, Command::new(store.path("copy")).env("LD_LIBRARY_PATH", store.path("")));
}
