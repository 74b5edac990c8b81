//! The view of a wait for people at a terminal, and `--unfair`.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Process, Store, event_names, events, eventually, sh, stderr, text, waiters};

/// A program with a pseudo-terminal as its stderr, and all its output so far.
struct OnTerminal {
    child: Child,
    written: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl OnTerminal {
    fn start(command: &mut Command, columns: u16) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave: OwnedFd =
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command.stderr(slave).spawn().unwrap();
        // The command has a copy of the slave; without this copy the reader sees the end.
        command.stderr(std::process::Stdio::null());
        let written = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&written);
        let reader = thread::spawn(move || {
            let (mut master, mut buffer) = (File::from(master), [0; 4096]);
            // The other side's end is an error here.
            while let Ok(n @ 1..) = master.read(&mut buffer) {
                seen.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self { child, written, reader: Some(reader) }
    }

    fn written(&self) -> String {
        String::from_utf8(self.written.lock().unwrap().clone()).unwrap()
    }

    fn screen(&self) -> String {
        screen(&self.written())
    }

    /// Waits until the screen shows this, and gives the screen.
    fn shows(&self, what: &str) -> String {
        let mut screen = String::new();
        eventually(&format!("the screen with {what:?}"), || {
            screen = self.screen();
            screen.contains(what)
        });
        screen
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit status, once all output is read.
    fn finish(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        status
    }
}

/// The screen after this output. The program may use only carriage return, line feed and the
/// erasing of a line.
fn screen(written: &str) -> String {
    let (mut lines, mut column) = (vec![Vec::new()], 0);
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        let last: &mut Vec<char> = lines.last_mut().unwrap();
        if let Some(after) = rest.strip_prefix("\u{1b}[K") {
            last.truncate(column);
            rest = after;
            continue;
        }
        assert!(c == '\r' || c == '\n' || !c.is_control(), "{written:?}");
        match c {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            _ => {
                last.truncate(column);
                last.push(c);
                column += 1;
            }
        }
        rest = &rest[c.len_utf8()..];
    }
    lines.iter().map(String::from_iter).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_wait_shows_place_holder_and_time_and_leaves_no_trace() {
    let store = Store::new();
    let mut holder = holder(&store, "boss@home");
    let _second = store.queue(&["run", "a", "-w", "10m", "--", "true"], "a", 0);
    let mut command = store.command(&["run", "a", "--", "sh", "-c", "echo started >&2"]);
    let mut waiter = OnTerminal::start(&mut command, 120);
    let seen = waiter.shows("2 ahead");
    assert!(seen.starts_with("lockkeeper: lock \"a\": waiting for "), "{seen}");
    // The line without a terminal says the same.
    assert!(seen.contains("s, 2 ahead; held by boss@home for "), "{seen}");
    assert!(seen.ends_with("s (release 7)"), "{seen}");
    assert!(!seen.contains('\n'), "{seen}");
    // The line is redrawn, and the time goes on.
    eventually("another time", || waiter.screen() != seen && waiter.screen().contains("; held by"));
    assert_eq!(holder.finish(), 0);
    assert!(waiter.finish().success());
    assert_eq!(waiter.screen(), "started\n", "{:?}", waiter.written());
    // The line was clean when the command wrote.
    assert!(waiter.written().ends_with("\r\u{1b}[Kstarted\r\n"), "{:?}", waiter.written());
}

#[test]
fn the_place_moves_up() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut second = store.queue(&sh(&["run", "a", "--json"], "cat"), "a", 0);
    let mut waiter = OnTerminal::start(&mut store.command(&["run", "a", "--", "true"]), 120);
    waiter.shows("2 ahead");
    assert_eq!(holder.finish(), 0);
    waiter.shows("1 ahead");
    assert_eq!(second.finish(), 0);
    assert!(waiter.finish().success());
    assert_eq!(waiter.screen(), "");
}

#[test]
fn the_status_line_is_gone_after_the_wait_or_an_interruption() {
    let store = Store::new();
    let _holder = store.hold("a");
    let began = Instant::now();
    let mut waiter =
        OnTerminal::start(&mut store.command(&["run", "a", "-w", "1500ms", "--", "true"]), 120);
    waiter.shows("1 ahead");
    assert_eq!(waiter.finish().code(), Some(75));
    let (screen, took) = (waiter.screen(), began.elapsed().as_secs_f64());
    let shown = screen.strip_prefix("lockkeeper: lock \"a\": not acquired within ").unwrap();
    let shown: f64 = shown.split_once('s').unwrap().0.parse().unwrap();
    // The message has tenths of a second.
    assert!(shown >= 1.5 && shown <= took + 0.1, "{shown} of {took}: {screen:?}");
    assert_eq!(screen.matches('\n').count(), 1, "{screen:?}");
    let mut waiter = OnTerminal::start(&mut store.command(&["run", "a", "--", "true"]), 120);
    waiter.shows("1 ahead");
    waiter.signal(Signal::INT);
    assert_eq!(waiter.finish().signal(), Some(2));
    assert_eq!(waiter.screen(), "", "{:?}", waiter.written());
}

#[test]
fn a_narrow_terminal_gets_a_short_line() {
    let store = Store::new();
    let _holder = store.hold("a");
    let mut waiter = OnTerminal::start(&mut store.command(&["run", "a", "--", "true"]), 30);
    let seen = waiter.shows("waiting");
    assert_eq!(seen.chars().count(), 29, "{seen:?}");
    waiter.signal(Signal::TERM);
    waiter.finish();
    assert_eq!(waiter.screen(), "");
}

#[test]
fn a_lock_that_is_free_shows_nothing() {
    let store = Store::new();
    let mut run = OnTerminal::start(&mut store.command(&["run", "a", "--", "true"]), 120);
    assert!(run.finish().success());
    assert_eq!(run.written(), "");
}

#[test]
fn json_and_quiet_and_a_dumb_terminal_show_no_line() {
    let store = Store::new();
    let _holder = store.hold("a");
    let mut quiet = OnTerminal::start(
        &mut store.command(&["-q", "run", "a", "-w", "2500ms", "--", "true"]),
        120,
    );
    let mut json = OnTerminal::start(
        &mut store.command(&["run", "a", "--json", "-w", "2500ms", "--", "true"]),
        120,
    );
    let mut dumb = store.command(&["run", "a", "-w", "2500ms", "--", "true"]);
    let mut dumb = OnTerminal::start(dumb.env("TERM", "dumb"), 120);
    assert_eq!(quiet.finish().code(), Some(75));
    assert_eq!(quiet.written(), "");
    assert_eq!(json.finish().code(), Some(75));
    assert_eq!(event_names(&json.written()), ["queued", "busy", "exited"]);
    assert!(!json.written().contains('\u{1b}'), "{:?}", json.written());
    assert_eq!(dumb.finish().code(), Some(75));
    assert!(!dumb.written().contains("waiting for"), "{:?}", dumb.written());
}

/// Holds the lock `a` as this owner, for a reason.
fn holder(store: &Store, owner: &str) -> Process {
    let mut holder = store.start(&[
        "--owner",
        owner,
        "run",
        "a",
        "--reason",
        "release 7",
        "--json",
        "--",
        "cat",
    ]);
    holder.event("started");
    holder
}

/// `LINE for 1.5s (release 7)`, without the time.
#[track_caller]
fn assert_prints(printed: &str, line: &str) {
    let expected = format!("lockkeeper: lock \"a\": {line} for ");
    assert!(
        printed.starts_with(&expected) && printed.contains("s (release 7)"),
        "{printed:?} instead of {expected:?}"
    );
}

#[test]
fn without_a_terminal_a_wait_names_the_holder_and_its_changes() {
    let store = Store::new();
    let mut first = holder(&store, "boss@home");
    let second =
        ["--owner", "next@home", "run", "a", "--reason", "release 7", "--json", "--", "cat"];
    let mut second = store.queue(&second, "a", 0);
    let mut waiter = store.start(&["run", "a", "--", "true"]);
    assert_prints(&waiter.error_line(), "waiting, 2 ahead; held by boss@home");
    assert_eq!(first.finish(), 0);
    assert_prints(&waiter.error_line(), "waiting, 1 ahead; held by next@home");
    assert_eq!(second.finish(), 0);
    assert_eq!((waiter.finish(), waiter.rest().as_str()), (0, ""));
}

#[test]
fn acquire_elect_and_unfair_runs_say_that_they_wait() {
    let store = Store::new();
    let _holder = holder(&store, "boss@home");
    for (args, line) in [
        (&["acquire", "a", "--handle-file", "h"][..], "waiting, 1 ahead; held by boss@home"),
        (&["elect", "a", "--", "true"], "waiting, 1 ahead; held by boss@home"),
        (&["run", "a", "--unfair", "--", "true"], "waiting; held by boss@home"),
        (&["run", "b", "a", "--", "true"], "waiting, 1 ahead; held by boss@home"),
    ] {
        let mut waiter = store.start(args);
        assert_prints(&waiter.error_line(), line);
        waiter.signal(Signal::TERM);
        assert_eq!(waiter.finish(), 143, "{args:?}");
        store.inspect_until("a", |lock| waiters(lock) == 0);
    }
}

#[test]
fn a_wait_with_a_tolerated_conflict_is_silent() {
    let store = Store::new();
    let _holder = holder(&store, "boss@home");
    for args in [&["-q"][..], &["-E", "0"]] {
        let output = store.output(&[&["run", "a", "-w", "500ms"], args, &["--", "true"]].concat());
        assert_eq!(stderr(&output), "", "{args:?}");
    }
    let printed = stderr(&store.output(&["run", "a", "-w", "500ms", "--json", "--", "true"]));
    assert_eq!(event_names(&printed), ["queued", "busy", "exited"]);
    assert_eq!(printed.lines().count(), 3, "{printed}");
}

#[test]
fn a_failed_attempt_names_the_holder_with_time_and_reason() {
    let store = Store::new();
    let _holder = holder(&store, "boss@home");
    for args in
        [&["run", "a", "-n", "--", "true"][..], &["acquire", "a", "-n", "--handle-file", "h"]]
    {
        let printed = stderr(&store.output(args));
        assert_prints(&printed, "not acquired; held by boss@home");
        assert!(printed.ends_with(". Try: --wait DURATION, which waits for it\n"), "{printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
    for args in [
        &["run", "a", "-w", "3s", "--", "true"][..],
        &["acquire", "a", "-w", "3s", "--handle-file", "h"],
    ] {
        let printed = stderr(&store.output(args));
        let lines: Vec<&str> = printed.lines().collect();
        let [waiting, busy] = lines[..] else { panic!("{printed}") };
        assert_prints(waiting, "waiting, 1 ahead; held by boss@home");
        assert!(
            busy.contains(": not acquired within ") && busy.contains("s; held by boss@home for "),
            "{busy}"
        );
        assert!(busy.ends_with("s (release 7). Try: a longer --wait"), "{busy}");
    }
}

#[test]
fn a_claim_for_more_permits_than_a_holder_names_learns_the_capacity() {
    let store = Store::new();
    let mut holders: Vec<Process> = Vec::new();
    for _ in 0..3 {
        let mut holder = store.start(&["run", "a", "--permits", "3", "--json", "--", "cat"]);
        holder.event("started");
        holders.push(holder);
    }
    let printed = stderr(&store.output(&["run", "a", "-n", "--permits", "5", "--", "true"]));
    assert!(printed.contains(", and 2 more; 3 of 3 permits are taken. Try: "), "{printed}");
    let waiter = store.start(&["run", "a", "--permits", "5", "--", "true"]);
    let printed = waiter.error_line();
    assert!(
        printed.contains(": waiting, ") && printed.ends_with("; 3 of 3 permits are taken"),
        "{printed}"
    );
}

#[test]
fn a_dumb_terminal_gets_lines_without_control_characters() {
    let store = Store::new();
    let _holder = store.hold("a");
    let mut command = store.command(&["run", "a", "-w", "3s", "--", "true"]);
    let mut dumb = OnTerminal::start(command.env("TERM", "dumb"), 120);
    assert_eq!(dumb.finish().code(), Some(75));
    let printed = dumb.written();
    assert!(
        printed.lines().count() == 2 && printed.contains("\"a\": waiting, 1 ahead; held by "),
        "{printed:?}"
    );
}

#[test]
fn unfair_takes_no_place_in_line() {
    let store = Store::new();
    let _holder = store.hold("a");
    let output = store.output(&["run", "a", "--unfair", "-w", "400ms", "--json", "--", "true"]);
    assert_eq!(output.status.code(), Some(75));
    let all = stderr(&output);
    assert_eq!(event_names(&all), ["busy", "exited"]);
    assert!(events(&all)[0]["waited_ms"].as_u64().unwrap() >= 400, "{all}");
}

#[test]
fn unfair_overtakes_no_waiter() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut unfair = store.start(&sh(&["run", "a", "--unfair", "--json"], "echo unfair >> served"));
    let mut fair = store.queue(&sh(&["run", "a"], "echo fair >> served"), "a", 0);
    assert_eq!(holder.finish(), 0);
    assert_eq!(fair.finish(), 0);
    assert_eq!(unfair.finish(), 0);
    assert_eq!(text(store.path("served")), "fair\nunfair\n");
    assert_eq!(unfair.events(), ["acquired", "started", "released", "exited"]);
}
