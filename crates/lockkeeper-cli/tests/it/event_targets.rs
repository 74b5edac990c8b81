//! Where `--events` goes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Process, Store, binary, event_names, events, sh, stderr, stdout, text};

const PLAIN: [&str; 4] = ["acquired", "started", "released", "exited"];

/// The program, started by a shell with these redirections.
fn redirected(store: &Store, args: &str, redirections: &str) -> Command {
    let program = binary().display();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {program} -S {} {args} {redirections}", store.url()));
    command.current_dir(store.path("."));
    command
}

fn pipe_at(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn events_to_a_file_are_appended() {
    let store = Store::new();
    fs::write(store.path("log"), "before\n").unwrap();
    for _ in 0..2 {
        let output = store.output(&["run", "a", "--events", "log", "--", "true"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    }
    let log = text(store.path("log"));
    assert!(log.starts_with("before\n"), "{log}");
    assert_eq!(event_names(&log[7..]), [PLAIN, PLAIN].concat());
    assert_eq!(log.lines().count(), 9, "{log}");
}

#[test]
fn events_to_a_descriptor_are_written_there() {
    let store = Store::new();
    for n in [3, 7] {
        let args = format!("run a --events fd:{n} -- echo x");
        let output = redirected(&store, &args, &format!("{n}>&1 >/dev/null")).output().unwrap();
        assert_eq!(event_names(&stdout(&output)), PLAIN, "{}", stderr(&output));
        assert_eq!(stdout(&output).lines().count(), 4);
    }
    for n in [1, 2] {
        let output = store.output(&["run", "a", "--events", &format!("fd:{n}"), "--", "true"]);
        let seen = if n == 1 { stdout(&output) } else { stderr(&output) };
        assert_eq!(event_names(&seen), PLAIN);
    }
}

#[test]
fn a_descriptor_keeps_its_place_in_its_file() {
    let store = Store::new();
    let script = format!(
        "exec 3>log; echo first >&3; {} -S {} run a --events fd:3 -- true; echo last >&3",
        binary().display(),
        store.url()
    );
    assert!(
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .current_dir(store.path("."))
            .status()
            .unwrap()
            .success()
    );
    let log = text(store.path("log"));
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[5]), (6, "first", "last"), "{log}");
}

#[test]
fn a_descriptor_may_be_a_socket() {
    let store = Store::new();
    let (reader, socket) = UnixStream::pair().unwrap();
    let mut command = redirected(&store, "run a --events fd:3 -- true", "3<&0");
    let mut child = command.stdin(OwnedFd::from(socket)).spawn().unwrap();
    drop(command);
    let lines: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(event_names(&lines.join("\n")), PLAIN);
}

#[test]
fn json_and_events_may_both_be_given() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--json", "--events", "log", "--", "true"]);
    assert_eq!(stderr(&output), text(store.path("log")));
    assert_eq!(event_names(&stderr(&output)), PLAIN);
}

#[test]
fn people_still_read_stderr() {
    let store = Store::new();
    let _holder = store.hold("a");
    let output = store.output(&["run", "a", "-n", "--events", "log", "--", "true"]);
    assert!(
        stderr(&output).starts_with("lockkeeper: lock \"a\": not acquired"),
        "{}",
        stderr(&output)
    );
    assert_eq!(event_names(&text(store.path("log"))), ["busy", "exited"]);
}

#[test]
fn what_is_opened_for_events_does_not_reach_the_command() {
    let store = Store::new();
    let list = "ls /proc/self/fd";
    let bare = Command::new("ls")
        .arg("/proc/self/fd")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let under_lock = store.output(&["run", "a", "--events", "log", "--", "ls", "/proc/self/fd"]);
    assert_eq!(stdout(&under_lock), stdout(&bare));
    // The command has the same descriptors with and without `run`.
    let listed = |args: &str| {
        let output = redirected(&store, &format!("run a {args} -- {list}"), "5>log </dev/null")
            .output()
            .unwrap();
        stdout(&output)
    };
    assert_eq!(listed("--events fd:5"), listed(""));
}

#[test]
fn exit_78_is_a_target_that_cannot_be_opened() {
    let store = Store::new();
    fs::create_dir(store.path("folder")).unwrap();
    pipe_at(&store.path("unread"));
    let failed = |output: Output, target: &str, why: &str| {
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{target}: {printed}");
        assert!(
            printed.contains(&format!("--events {target}"))
                && printed.contains(why)
                && printed.contains("Try: "),
            "{printed}"
        );
        assert!(!store.database().exists(), "{target}");
    };
    for n in [3, 4, 5, 9, 40, 100_000] {
        let target = format!("fd:{n}");
        failed(
            store.output(&["run", "a", "--events", &target, "--", "true"]),
            &target,
            "Bad file descriptor",
        );
    }
    failed(
        redirected(&store, "run a --events fd:3 -- true", "3</dev/null").output().unwrap(),
        "fd:3",
        "for writing",
    );
    for (target, why) in
        [("folder", "directory"), ("missing/log", "No such file"), ("unread", "reader")]
    {
        let shown = format!("{target:?}");
        failed(store.output(&["run", "a", "--events", target, "--", "true"]), &shown, why);
    }
    let output = store.output(&["run", "a", "--json", "--events", "folder", "--", "true"]);
    assert_eq!(event_names(&stderr(&output)), ["exited"]);
    assert_eq!(events(&stderr(&output))[0]["code"], 78);
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let store = Store::new();
    let (reader, socket) = UnixStream::pair().unwrap();
    let script = "run a --events fd:3 -- sh -c 'echo ready; while ! test -e go; do sleep 0.02; done; exit 4'";
    let mut command = redirected(&store, script, "3<&0 </dev/null");
    let mut child = command.stdin(OwnedFd::from(socket)).spawn().unwrap();
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(event_names(&line), ["acquired"]);
    drop(reader);
    fs::write(store.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(store.inspect("a")["state"], "free");
}

/// A pipe with a reader that does not read, and no room for a single byte more.
fn stuck_pipe(path: &Path) -> File {
    pipe_at(path);
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let reader = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).unwrap();
    let mut writer = OpenOptions::new().write(true).custom_flags(nonblocking).open(path).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    reader
}

#[test]
fn a_stuck_reader_does_not_delay_the_end_of_the_command() {
    let store = Store::new();
    let _stuck = stuck_pipe(&store.path("pipe"));
    let mut run = store.start(&sh(
        &["run", "a", "-t", "2s", "--json", "--events", "pipe"],
        "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done",
    ));
    assert_eq!(run.line(), "ready");
    let _outage = store.outage();
    run.event("lost");
    assert_eq!(run.finish(), 79);
}

#[test]
fn a_log_that_nobody_reads_keeps_no_renewal() {
    let store = Store::new();
    let _stuck = stuck_pipe(&store.path("pipe"));
    // Longer than the lease.
    let script = "-vv run a -t 8s -- sh -c 'echo ready; sleep 10; exit 4'";
    let mut run = Process::start(&mut redirected(&store, script, "2>pipe"));
    assert_eq!(run.line(), "ready");
    assert_eq!(run.finish(), 4);
}

#[test]
fn events_that_cannot_be_written_are_reported_once() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--events", "/dev/full", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = stderr(&output);
    assert!(
        printed.starts_with(
            "lockkeeper: --events \"/dev/full\": an event could not be written: No space"
        ),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn an_event_after_a_torn_line_begins_its_own_line() {
    let store = Store::new();
    // There are twelve bytes left in the file, and the command makes room.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8192; yes | head -c 99999999 > log; truncate -s -12 log; \
         exec {} -S {} run a --events log -- sh -c 'until [ $(stat -c %s log) = 4194304 ]; do :; done; : > log'",
        binary().display(),
        store.url()
    );
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(store.path(".")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        stderr(&output).contains("an event could not be written: File too large"),
        "{output:?}"
    );
    let log = text(store.path("log"));
    assert!(
        log.starts_with('\n') && event_names(&log).ends_with(&["released".into(), "exited".into()]),
        "{log}"
    );
}

#[test]
fn a_stuck_stderr_does_not_delay_the_end_of_the_command() {
    let store = Store::new();
    let mut stuck = stuck_pipe(&store.path("pipe"));
    let script = "run a -t 2s --json --events log -- \
                  sh -c 'trap \"exit 0\" TERM; echo ready; while :; do sleep 0.02; done'";
    let mut run = Process::start(&mut redirected(&store, script, "2>pipe"));
    assert_eq!(run.line(), "ready");
    let _outage = store.outage();
    assert_eq!(run.finish(), 79);
    assert!(event_names(&text(store.path("log"))).contains(&"lost".to_owned()));
    let mut first = [0];
    stuck.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"x");
}
