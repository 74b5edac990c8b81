//! The exit codes, each by its number. 126, 127 and 128+n are with the rules, 79 is with the
//! losses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use crate::support::{Store, binary, events, program, sh, stderr, stdout};

fn code_of(args: &[&str]) -> i32 {
    program().args(args).output().unwrap().status.code().unwrap()
}

#[test]
fn exit_0_is_success_and_help() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    for args in [&["--help"][..], &["run", "--help"], &["-h"], &["help", "run"], &["--version"]] {
        let output = program().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!stdout(&output).is_empty() && stderr(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn exit_1_is_a_free_lock() {
    assert_eq!(Store::new().code(&["inspect", "a"]), 1);
}

#[test]
fn exit_64_is_wrong_usage() {
    let store = Store::new();
    let long = "x".repeat(256);
    for args in [
        &[][..],
        &["frobnicate"],
        &["run", "a"],
        &["run", "a", "true"],
        &["run", "a", "--"],
        &["run", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "a\nb", "--", "true"],
        &["run", &long, "--", "true"],
        &["run", "a", "b", "", "--", "true"],
        &["run", "a", "-n", "-w", "1", "--", "true"],
        &["run", "a", "-w", "1x", "--", "true"],
        &["run", "a", "-t", "forever", "--", "true"],
        &["run", "a", "-t", "0", "--", "true"],
        &["run", "a", "-t", "1ms", "--", "true"],
        &["elect", "a", "-t", "1ms", "--", "true"],
        &["run", "a", "--lock-delay", "25h", "--", "true"],
        &["run", "a", "-E", "256", "--", "true"],
        &["run", "a", "--reason", &"x".repeat(2000), "--", "true"],
        &["run", "a", "--owner", &"x".repeat(256), "--", "true"],
        &["run", "a", "--shared", "--permits", "2", "--", "true"],
        &["run", "a", "--permits", "3/2", "--", "true"],
        &["run", "a", "--events", "fd:x", "--", "true"],
        &["elect", "a"],
        &["elect", "a", "b", "--", "true"],
        &["elect", "a", "-n", "--", "true"],
        &["elect", "a", "--restart", "sometimes", "--", "true"],
        &["leader"],
        &["leader", ""],
        &["inspect"],
        &["inspect", ""],
        &["inspect", "a", "b"],
        &["list", "--limit", "0"],
        &["list", "--prefix", &"x".repeat(250), "--no-such-option"],
        &["run", "--prefix", &"x".repeat(250), "too-long", "--", "true"],
    ] {
        let output = store.output(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{args:?}");
        let printed = stderr(&output);
        assert!(
            printed.starts_with("lockkeeper: ") && printed.lines().count() == 1,
            "{args:?}: {printed}"
        );
    }
}

#[test]
fn exit_64_names_what_was_meant() {
    let store = Store::new();
    for (args, meant) in [
        (&["insepct", "a"][..], "Try: inspect"),
        (&["list", "--jsno"], "Try: --json"),
        (
            &["run", "a", "true"],
            "\"true\" is taken for a lock. Try: lockkeeper run NAME -- CMD, with -- before the command",
        ),
        (&["run", "a"], "-- <CMD>..."),
    ] {
        let printed = stderr(&store.output(args));
        assert!(printed.trim_end().ends_with(meant), "{printed}");
    }
}

#[test]
fn exit_64_names_what_is_allowed() {
    let output = Store::new().output(&["run", "a", "-w", "1x", "--", "true"]);
    assert!(
        stderr(&output).contains("500ms, 30s, 5m, 1h30m, 7d or seconds"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn exit_64_is_a_password_in_the_flag() {
    let output = program().args(["-S", "redis://:hush@h", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(!stderr(&output).contains("hush"));
}

#[test]
fn exit_69_is_a_store_that_does_not_answer() {
    let store = Store::new();
    drop(store.hold("a"));
    let _outage = store.outage();
    assert_eq!(store.code(&["--connect-timeout", "300ms", "run", "a", "--", "true"]), 69);
}

#[test]
fn exit_69_is_a_store_that_was_deleted() {
    let store = Store::new();
    let mut holder = store.start(&["run", "a", "-t", "6s", "--", "sleep", "60"]);
    store.inspect_until("a", |lock| lock["state"] == "held");
    let mut waiter = store.queue(&["run", "a", "-t", "6s", "--", "true"], "a", 0);
    std::fs::remove_file(store.database()).unwrap();
    // The waiter does not wait in vain: with the old file gone, a new file can be used.
    assert_eq!(waiter.finish(), 69);
    assert_eq!(holder.finish(), 79);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn exit_71_names_the_limit_that_is_too_low() {
    let store = Store::new();
    let mut codes = Vec::new();
    // Below that not even the libraries of the program can be opened, if this process leaks a
    // descriptor or two.
    for limit in 8..36 {
        let script = format!(
            "ulimit -n {limit}; exec {} -S {} run a -- true",
            binary().display(),
            store.url()
        );
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        let (code, printed) = (output.status.code().unwrap(), stderr(&output));
        assert!(printed.lines().count() == usize::from(code != 0), "{limit}: {printed}");
        assert!(
            code == 0 || printed.contains("Too many open files") && printed.contains("Try: raise"),
            "{limit}: {printed}"
        );
        codes.push(code);
    }
    codes.dedup();
    assert_eq!(codes, [71, 0]);
}

#[test]
fn exit_75_is_a_busy_lock() {
    let store = Store::new();
    let _holder = store.hold("a");
    for args in [&["-n"][..], &["--try"], &["--nonblock"], &["-w", "0"], &["--wait", "50ms"]] {
        let output =
            store.output(&[&["run", "a", "--owner", "me"], args, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(75), "{args:?}: {}", stderr(&output));
        let printed = stderr(&output);
        // The waiter reports its wait first, if there is time.
        assert!(printed.lines().count() <= if args.contains(&"50ms") { 2 } else { 1 }, "{printed}");
        let holder = store.inspect("a")["holders"][0]["owner"].as_str().unwrap().to_owned();
        assert!(
            printed.contains("lockkeeper: lock \"a\": not acquired") && printed.contains(&holder),
            "{printed}"
        );
    }
}

#[test]
fn exit_75_can_be_another_number() {
    let store = Store::new();
    let _holder = store.hold("a");
    let output = store.output(&["run", "a", "-n", "-E", "0", "--", "true"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(store.code(&["run", "a", "-n", "--conflict-exit-code", "9", "--", "true"]), 9);
    let output = store.output(&["-q", "run", "a", "-n", "--", "true"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(75), ""));
}

#[test]
fn exit_77_is_a_lack_of_rights() {
    let store = Store::new();
    let private = store.path("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o000)).unwrap();
    let url = format!("file:{}/locks.db", private.display());
    let output = store.as_user(&["-S", &url, "run", "a", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
}

#[test]
fn exit_78_is_a_matter_of_configuration() {
    let store = Store::new();
    for url in ["memory:", "prod", "nonsense://x", "file:", "file:/tmp/x?ttll=3"] {
        assert_eq!(code_of(&["-S", url, "list"]), 78, "{url}");
    }
    let mut command = store.command(&["list"]);
    assert_eq!(
        command.env("LOCKKEEPER_OWNER", "x".repeat(256)).output().unwrap().status.code(),
        Some(78)
    );
    let url = format!("{}?ttl=1ms", store.url());
    let output = program().args(["-S", &url, "run", "a", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    assert!(stderr(&output).contains("100ms"), "{}", stderr(&output));
    let output = program().args(["-S", "file:x?ttll=3", "list"]).output().unwrap();
    assert!(stderr(&output).contains("ttl="), "{}", stderr(&output));
}

#[test]
fn exit_1_is_every_no() {
    let store = Store::new();
    assert_eq!(store.code(&["check", "lk1.x.7.a"]), 1);
    assert_eq!(store.code(&["leader", "a"]), 1);
    assert_eq!(store.code(&["break", "a", "--token", "7", "--reason", "r", "--yes"]), 1);
    fs::write(store.path("plain"), "no database\n").unwrap();
    assert_eq!(
        program()
            .arg("-S")
            .arg(format!("file:{}", store.path("plain").display()))
            .arg("doctor")
            .output()
            .unwrap()
            .status
            .code(),
        Some(1)
    );
    assert_eq!(store.code(&["acquire", "a", "--handle-file", "h", "-t", "1s"]), 0);
    store.inspect_until("a", |lock| lock["state"] == "free");
    for command in ["renew", "release"] {
        assert_eq!(store.code(&[command, "--handle-file", "h"]), 1, "{command}");
    }
}

#[test]
fn exit_79_is_a_lock_that_was_lost_while_the_command_ran() {
    let store = Store::new();
    // The command's own code does not count any more.
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--max-hold", "500ms"], script));
    assert_eq!(run.line(), "ready");
    assert_eq!(run.finish(), 79);
}

#[test]
fn exit_126_is_a_command_that_cannot_be_executed() {
    let store = Store::new();
    fs::write(store.path("plain"), "").unwrap();
    for command in ["./plain", "/"] {
        assert_eq!(store.code(&["run", "a", "--", command]), 126, "{command}");
    }
}

#[test]
fn exit_127_is_a_command_that_is_not_there() {
    let store = Store::new();
    for command in ["no-such-command", "./none", "/bin/sh/x", ""] {
        assert_eq!(store.code(&["run", "a", "--", command]), 127, "{command}");
    }
    fs::write(store.path("once"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(store.path("once"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--", "./once"], "a", 0);
    // The store was there when the wait began.
    fs::remove_file(store.path("once")).unwrap();
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 127);
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn exit_128_and_n_is_the_end_by_signal_n() {
    let store = Store::new();
    let signals = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("KILL", 9),
        ("SEGV", 11),
        ("PIPE", 13),
        ("TERM", 15),
    ];
    for (name, number) in signals {
        let script = format!("kill -{name} $$");
        let output = store.output(&["run", "a", "--json", "--", "sh", "-c", &script]);
        assert_eq!(output.status.signal(), Some(number), "{name}: {output:?}");
        // Only the command may leave one.
        assert!(!output.status.core_dumped(), "{name}");
        let exited = events(&stderr(&output)).pop().unwrap();
        assert_eq!(
            (exited["code"].as_i64(), exited["cause"].as_str()),
            (Some(128 + i64::from(number)), Some("signal"))
        );
    }
}

#[test]
fn exit_128_and_n_is_reported_where_a_signal_cannot_end_it() {
    let store = Store::new();
    // A real-time signal has no default action that could be emulated.
    let output = store.output(&["run", "a", "--", "sh", "-c", "kill -40 $$"]);
    assert_eq!(output.status.code(), Some(168), "{output:?}");
}

#[test]
fn exit_code_of_the_command_is_its_own_and_the_event_says_so() {
    let store = Store::new();
    for code in [1, 2, 64, 69, 74, 75, 78, 79, 126, 127, 200, 255] {
        let output =
            store.output(&["run", "a", "--json", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
        let printed = stderr(&output);
        assert!(printed.contains(&format!("\"code\":{code},\"cause\":\"child\"")), "{printed}");
    }
}
