//! R12: the terminal is the command's when the command asks for it.

use crate::pty::{CTRL_BACKSLASH, CTRL_C, Shell, is_stopped, pipe};
use crate::support::{Store, eventually, script, text};

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
    // A process that sets the terminal from the background is stopped.
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
    // The jobs have the terminal in turn.
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
    // Even if the command was killed while it had the terminal.
    shell.keys("bash -c 'lockkeeper run a -- sh -c \"kill -9 \\$\\$\"; read x; echo then $x'\n");
    shell.keys("that\n");
    shell.sees("then that");
}

#[test]
fn r12_ctrl_c_reaches_the_command() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    let traps = "trap \"echo caught; exit 5\" INT; echo ready; while :; do sleep 0.05; done";
    shell.keys(&format!("lockkeeper run a -- sh -c '{traps}'; echo code $?\n"));
    shell.sees("ready");
    shell.keys(CTRL_C);
    shell.sees("caught");
    shell.sees("code 5");
    shell.keys("lockkeeper run a -- sh -c 'echo ready; exec sleep 1000'\n");
    shell.sees("ready");
    shell.ctrl_c_ends_it();
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn r12_ctrl_c_is_the_end_of_elect_too() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    for command in ["exec sleep 1000", "read x"] {
        for (key, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
            shell.keys(&format!(
                "lockkeeper elect a -- sh -c 'ulimit -c 0; echo ready; {command}'\n"
            ));
            shell.sees("ready");
            if command == "read x" {
                shell.is_given_away();
            }
            shell.keys(key);
            let before = shell.code_is(code);
            assert!(!before.contains("campaigning again"), "{before}");
        }
    }
    shell.keys("lockkeeper elect a -- sh -c 'exit 3'\n");
    shell.sees("campaigning again in");
    shell.sees("exit code 3");
    shell.ctrl_c_ends_it();
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
    // Where the tests are not root's, there is no other user to be had, and this is a neighbour
    // like any other.
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "setpriv --reuid 65534 --clear-groups " } else { "" };
    if !is_root {
        eprintln!(
            "left out: r12_a_run_in_the_background_takes_no_terminal: only root can play another user"
        );
    }
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
    // The terminal stops a process that writes from the background, and the command has the
    // foreground.
    shell.keys("stty tostop; lockkeeper run --json a -- sh -c 'echo ready; read x; exit 4'; echo code $?\n");
    shell.sees("ready");
    shell.keys("this\n");
    shell.sees("\"event\":\"exited\"");
    shell.sees("code 4");
}

#[test]
fn r12_a_background_run_that_reads_is_stopped_and_resumes_in_the_foreground() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'read x; echo i read $x' &\n");
    let run = shell.run();
    eventually("it is stopped", || is_stopped(run));
    // The shell must have noticed the stop: otherwise it takes the job for a running one and does
    // not continue it.
    shell.keys("until jobs | grep Stopped; do :; done\n");
    shell.sees("Stopped");
    shell.keys("fg\n");
    eventually("it goes on", || !is_stopped(run));
    shell.keys("this\n");
    shell.sees("i read this");
}

#[test]
fn r12_the_pager_of_a_pipeline_reads_its_keys() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    // As less does: text from the pipe, keys from the terminal.
    let pager = "bash -c 'read line; echo page $line; read key < /dev/tty; echo key $key; cat'";
    shell.keys(&format!(
        "lockkeeper run a -- sh -c 'echo one; read x < go; echo two' | {pager}; echo end\n"
    ));
    shell.sees("page one");
    shell.keys("q\n");
    shell.sees("key q");
    std::fs::write(store.path("go"), "\n").unwrap();
    shell.sees("two");
    shell.sees("end");
}

#[test]
fn r12_a_pager_gets_the_terminal_back_from_the_command() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    let pager = "bash -c 'read line; echo page $line; read key < /dev/tty; echo key $key; cat'";
    let command =
        "read x < /dev/tty; echo got $x; read x < go; echo two; read x < /dev/tty; echo got $x";
    shell.keys(&format!("lockkeeper run a -- sh -c '{command}' | {pager}; echo end\n"));
    shell.is_given_away();
    shell.keys("this\n");
    shell.sees("page got this");
    shell.keys("q\n");
    shell.sees("key q");
    std::fs::write(store.path("go"), "\n").unwrap();
    shell.sees("two");
    shell.is_given_away();
    shell.keys("that\n");
    shell.sees("got that");
    shell.sees("end");
}

#[test]
fn r12_the_terminal_is_the_scripts_until_the_command_asks_for_it() {
    let store = Store::new();
    pipe(&store, "go");
    let mut shell = Shell::new(&store);
    shell.keys("lockkeeper run a -- sh -c 'echo ready; read x < go; echo asks; read x; echo got $x'; echo end\n");
    shell.sees("ready");
    let run = shell.run();
    assert_eq!(shell.foreground(), run);
    std::fs::write(store.path("go"), "\n").unwrap();
    shell.sees("asks");
    shell.is_given_away();
    assert_ne!(shell.foreground(), run);
    shell.keys("this\n");
    shell.sees("got this");
    shell.sees("end");
}

/// In the group of `run`, the kernel would have refused it the terminal.
#[test]
fn r12_a_command_that_waits_for_an_unavailable_terminal_is_ended() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.keys("( lockkeeper run a -k 1s -- sh -c 'echo begun > begun; read x </dev/tty' & )\n");
    shell.sees("no shell can continue it");
    eventually("the lock is free", || store.inspect("a")["state"] == "free");
    assert!(store.path("begun").exists());
}

/// Both runs are in the group of a script that no terminal controls. The first run has the
/// terminal, and gives it back.
#[test]
fn r12_a_command_waits_for_the_terminal_of_another_run_in_its_script() {
    let store = Store::new();
    let ask = |lock, before| {
        format!(
            "lockkeeper run {lock} -- sh -c '{before}; read x </dev/tty; echo {lock} got $x' &\n"
        )
    };
    let both = ask("a", "echo a asks")
        + &ask("b", "until test -e go; do sleep 0.02; done; echo $$ > b; echo b asks");
    script(&store.path("both"), &format!("#!/bin/bash\n{both}wait\necho all done\n"));
    let mut shell = Shell::new(&store);
    shell.keys("exec ./both\n");
    shell.sees("a asks");
    eventually("it has the terminal", || shell.has_given_the_terminal());
    std::fs::write(store.path("go"), "").unwrap();
    shell.sees("b asks");
    eventually("it is stopped", || text(store.path("b")).trim().parse().is_ok_and(is_stopped));
    shell.keys("one\n");
    shell.sees("a got one");
    shell.keys("two\n");
    shell.sees("b got two");
    shell.sees("all done");
}
