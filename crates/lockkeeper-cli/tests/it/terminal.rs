//! R5 and R12, on a pseudo-terminal with an interactive shell, as a person would see them.
//!
//! A shell that is stopped in the middle of a vfork cannot stop before its child goes on, so what is stopped here
//! forks nothing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{LIMIT, Process, Store, children, eventually, is_alive, sh, text};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// A shell on a terminal of its own.
struct Shell {
    shell: Child,
    keys: File,
    screen: Receiver<String>,
    seen: String,
}

impl Shell {
    /// A bash with job control, in which `lockkeeper` is the program with this store.
    fn new(store: &Store) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_str().unwrap();
        let mut command = Command::new("setsid");
        command.env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()));
        command.args(["--ctty", "bash", "--norc", "--noprofile", "-i"]).current_dir(store.path(""));
        command.env("PS1", "$ ").env("TERM", "dumb").env("LOCKKEEPER_STORE", store.url());
        command.env("LOCKKEEPER_CONFIG", "/dev/null");
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let shell = command.spawn().unwrap_or_else(|e| panic!("this test needs setsid (util-linux) and bash: {e}"));
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                if sender.send(String::from_utf8_lossy(&buffer[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        let mut shell = Self { shell, keys, screen, seen: String::new() };
        // What is typed is not echoed, so that it is not taken for an answer.
        shell.keys("stty -echo; echo rea''dy\n");
        shell.sees("ready");
        shell
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is on the screen, and forgets all up to it.
    fn sees(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let more = self.screen.recv_timeout(LIMIT);
            self.seen += &more.unwrap_or_else(|e| panic!("{text:?} was not seen: {e}; {:?}", self.seen));
        }
    }

    /// Waits until a command that is there already has the terminal, which it gets a moment after its start.
    fn is_given_away(&self) {
        eventually("the command has the terminal", || {
            let stat = text(format!("/proc/{}/stat", self.shell.id()));
            let foreground = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(5)).unwrap().to_owned();
            let line = text(format!("/proc/{foreground}/cmdline"));
            !line.is_empty() && !line.contains("lockkeeper") && foreground != self.shell.id().to_string()
        });
    }

    /// Its child, once there is one whose command line says `lockkeeper`.
    fn run(&self) -> u32 {
        let mut found = None;
        eventually("the run", || {
            let is_run = |pid: &String| text(format!("/proc/{pid}/cmdline")).contains("lockkeeper\0run");
            found = children(self.shell.id()).into_iter().find(is_run);
            found.is_some()
        });
        found.unwrap().parse().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A named pipe beside the store: to wait for it needs neither a fork nor the terminal.
fn pipe(store: &Store, name: &str) {
    assert!(Command::new("mkfifo").arg(store.path(name)).status().unwrap().success());
}

fn is_stopped(pid: u32) -> bool {
    text(format!("/proc/{pid}/stat")).contains(") T")
}

#[test]
fn r12_a_command_reads_the_terminal() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    for _ in 0..5 {
        shell.keys("lockkeeper run a -- sh -c 'echo your name?; read name; echo hello $name'; echo code $?\n");
        shell.sees("your name?");
        shell.keys("kim\n");
        shell.sees("hello kim");
        shell.sees("code 0");
    }
}

#[test]
fn r12_a_command_sets_the_terminal() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    // Whoever sets it from the background is stopped.
    shell.keys("lockkeeper run a -- sh -c 'stty raw && stty -raw && stty -echo && echo it is set'; echo code $?\n");
    shell.sees("it is set");
    shell.sees("code 0");
}

#[test]
fn r12_an_interactive_shell_runs_under_the_lock() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- bash --norc --noprofile -i\n");
    shell.keys("echo token=$LOCKKEEPER_FENCING_TOKEN. under the lock\n");
    shell.sees(". under the lock");
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 75);
    // Its jobs have the terminal in turn.
    shell.keys("sh -c 'echo a job; exec sleep 1000'\n");
    shell.sees("a job");
    shell.keys(CTRL_C);
    shell.keys("echo code $?\n");
    shell.sees("code 130");
    shell.keys("exit 6\n");
    shell.keys("echo code $?\n");
    shell.sees("code 6");
}

#[test]
fn r12_the_terminal_is_given_back() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    // The script is in the same group as `run`, and reads after it.
    shell.keys("bash -c 'lockkeeper run a -- true; read x; echo then $x'\n");
    shell.keys("this\n");
    shell.sees("then this");
    // Even if the command was killed while it had it.
    shell.keys("bash -c 'lockkeeper run a -- sh -c \"kill -9 \\$\\$\"; read x; echo then $x'\n");
    shell.keys("that\n");
    shell.sees("then that");
}

#[test]
fn r12_ctrl_c_reaches_the_command() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'trap \"echo caught; exit 5\" INT; echo ready; while :; do sleep 0.05; done'; echo code $?\n");
    shell.sees("ready");
    shell.is_given_away();
    shell.keys(CTRL_C);
    shell.sees("caught");
    shell.sees("code 5");
    shell.keys("lockkeeper run a -- sh -c 'echo ready; exec sleep 1000'; echo code $?\n");
    shell.sees("ready");
    shell.is_given_away();
    shell.keys(CTRL_C);
    shell.sees("code 130");
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn r12_ctrl_c_is_the_end_of_elect_too() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    for (key, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        shell.keys("lockkeeper elect a -- sh -c 'ulimit -c 0; echo ready; exec sleep 1000'; echo code $?\n");
        shell.sees("ready");
        shell.is_given_away();
        shell.keys(key);
        let before = shell.sees(&format!("code {code}"));
        assert!(!before.contains("campaigning again"), "{before}");
    }
    // In a pause the terminal is ours, and so is what is typed.
    shell.keys("lockkeeper elect a -- sh -c 'exit 3'; echo code $?\n");
    shell.sees("campaigning again in");
    shell.sees("exit code 3");
    shell.keys(CTRL_C);
    shell.sees("code 130");
}

#[test]
fn r12_a_run_in_the_background_leaves_the_terminal_alone() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'echo working; sleep 1000' &\n");
    shell.sees("working");
    shell.keys("read x; echo i read $x\n");
    shell.keys("this\n");
    shell.sees("i read this");
    shell.keys("kill %1; wait %1; echo code $?\n");
    shell.sees("code 143");
}

#[test]
fn r12_a_run_in_the_background_takes_no_terminal_from_another_user() {
    let store = Store::new();
    pipe(&store, "go");
    let other = store.as_user(&[]);
    let mut shell = Shell::new(&store);
    let program = other.get_program().to_str().unwrap().to_owned();
    // Where the tests are not root's, there is no other user to be had, and this is a neighbour like any other.
    let user = if rustix::process::geteuid().is_root() { "setpriv --reuid 65534 --clear-groups " } else { "" };
    shell.keys("chmod 777 . go; mkdir -m 777 other\n");
    let run = format!(
        "{user}{program} -S 'file:other/locks.db?unsafe=permissions' run a -- sh -c 'echo working; read x < go'"
    );
    shell.keys(&format!("{run} &\n"));
    shell.sees("working");
    shell.keys(
        "sh -c 'echo > go; while kill -0 $0; do sleep 0.02; done 2>/dev/null; echo ended; read x; echo i read $x' $!\n",
    );
    shell.sees("ended");
    shell.keys("this\n");
    shell.sees("i read this");
}

#[test]
fn r12_a_message_from_the_background_stops_nobody() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    // The terminal stops whoever writes to it from the background, and the command has the foreground.
    shell.keys("stty tostop; lockkeeper run --json a -- sh -c 'echo ready; read x; exit 4'; echo code $?\n");
    shell.sees("ready");
    shell.keys("this\n");
    shell.sees("\"event\":\"exited\"");
    shell.sees("code 4");
}

#[test]
fn r12_a_background_run_that_reads_is_stopped_and_goes_on_in_the_foreground() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'read x; echo i read $x' &\n");
    let run = shell.run();
    eventually("it is stopped", || is_stopped(run));
    // The shell must have heard of it, or it takes the job for a running one and does not continue it.
    shell.keys("until jobs | grep Stopped; do :; done\n");
    shell.sees("Stopped");
    shell.keys("fg\n");
    eventually("it goes on", || !is_stopped(run));
    shell.keys("this\n");
    shell.sees("i read this");
}

#[test]
fn r5_ctrl_z_stops_both_and_fg_continues_both() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'echo ready; read x; echo got $x; exit 4'; echo code $?\n");
    shell.sees("ready");
    shell.is_given_away();
    let run = shell.run();
    for _ in 0..3 {
        shell.keys(CTRL_Z);
        shell.sees("Stopped");
        assert!(is_stopped(run));
        assert_eq!(store.inspect("a")["state"], "held");
        shell.keys("fg; echo code $?\n");
        eventually("it goes on", || !is_stopped(run));
    }
    shell.keys("a line\n");
    shell.sees("got a line");
    shell.sees("code 4");
}

#[test]
fn r5_ctrl_z_in_a_script_stops_the_script_too() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("bash -c 'lockkeeper run a -- sh -c \"echo ready; read x; echo got \\$x\"; echo end of script'\n");
    shell.sees("ready");
    shell.is_given_away();
    shell.keys(CTRL_Z);
    shell.sees("Stopped");
    shell.keys("fg\n");
    shell.keys("a line\n");
    shell.sees("got a line");
    shell.sees("end of script");
}

#[test]
fn r5_bg_continues_both_without_the_terminal() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'echo ready; read x < go; echo went on; exit 4'\n");
    shell.sees("ready");
    shell.is_given_away();
    shell.keys(CTRL_Z);
    shell.sees("Stopped");
    shell.keys("bg; echo > go; wait %1; echo code $?\n");
    shell.sees("went on");
    shell.sees("code 4");
}

#[test]
fn r5_a_command_that_lost_its_lock_while_stopped_is_killed_and_not_continued() {
    let store = Store::new();
    pipe(&store, "never");
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run -t 4s a -- sh -c 'trap \"touch continued\" CONT TERM; echo ready; read x < never'\n");
    shell.sees("ready");
    shell.is_given_away();
    let run = shell.run();
    let command = children(run).into_iter().find(|pid| text(format!("/proc/{pid}/cmdline")).starts_with("sh")).unwrap();
    shell.keys(CTRL_Z);
    shell.sees("Stopped");
    // Not only when somebody remembers the job: nothing of it may be left when the next one starts.
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
fn r5_a_lock_that_was_lost_while_stopped_is_noticed_without_the_guard() {
    let store = Store::new();
    let script = "trap 'touch continued' CONT TERM; echo ready; read x";
    let mut command = store.command(&sh(&["run", "a", "--json", "-t", "2s"], script));
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
    let args = ["run", "a", "--json", "-t", "6s", "-k", "500ms"];
    let mut command = store.command(&sh(&args, "echo ready; kill -STOP $$; exit 4"));
    // In a session of its own there is no terminal, even if the tests have one.
    let mut shell = Command::new("setsid");
    shell.arg("--wait").arg(command.get_program()).args(command.get_args()).current_dir(store.path(""));
    command = shell;
    let mut run = Process::start(&mut command);
    let child: u32 = run.event("started")["pid"].as_u64().unwrap().try_into().unwrap();
    eventually("it is stopped", || is_stopped(child));
    thread::sleep(Duration::from_secs(7));
    assert_eq!(store.inspect("a")["state"], "held");
    crate::support::signal(child, Signal::CONT);
    assert_eq!(run.finish(), 4);
}
