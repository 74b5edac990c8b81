//! The options, flags and variables without another file of tests, each by its name.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Store, binary, events, program, stderr, stdout};

fn event(output: &std::process::Output, name: &str) -> Value {
    let all = events(&stderr(output));
    all.into_iter()
        .find(|event| event["event"] == name)
        .unwrap_or_else(|| panic!("{}", stderr(output)))
}

#[test]
fn wait_is_a_limit_and_forever_is_none() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut patient = store.queue(&["run", "a", "--wait", "forever", "--", "true"], "a", 0);
    for flag in ["-w", "--wait"] {
        let began = Instant::now();
        assert_eq!(store.code(&["run", "a", flag, "300ms", "--", "true"]), 75);
        assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    }
    assert_eq!(holder.finish(), 0);
    assert_eq!(patient.finish(), 0);
}

#[test]
fn wait_of_a_bare_number_is_in_seconds() {
    let store = Store::new();
    let _holder = store.hold("a");
    let output = store.output(&["run", "a", "--json", "-w", "1", "--", "true"]);
    let waited = event(&output, "busy")["waited_ms"].as_u64().unwrap();
    assert!(waited >= 1000, "{waited}");
}

#[test]
fn wait_goes_on_while_the_store_is_away_and_warns() {
    let store = Store::new();
    let mut holder = store.start(&["run", "a", "--json", "-t", "5m", "--", "cat"]);
    holder.event("started");
    let mut waiter = store.queue(&["run", "a", "-w", "10m", "--", "true"], "a", 0);
    assert!(waiter.error_line().contains("lock \"a\": waiting, 1 ahead; held by "));
    let outage = store.outage();
    let warning = waiter.error_line();
    let warns_of = |piece: &str| warning.contains(piece);
    assert!(
        warns_of("lock \"a\": the store does not answer (") && warns_of("); still waiting in line"),
        "{warning}"
    );
    drop(outage);
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0, "{}", waiter.rest());
}

#[test]
fn exit_69_is_a_wait_that_ends_while_the_store_is_away() {
    let store = Store::new();
    let mut holder = store.start(&["run", "a", "--json", "-t", "5m", "--", "cat"]);
    holder.event("started");
    let acquire = ["acquire", "a", "-w", "20s", "--handle-file", "h"];
    let commands = [&["run", "a", "-w", "20s", "-E", "7", "--", "true"][..], &acquire];
    let mut place = 0..;
    let waiters = commands.map(|command| store.queue(command, "a", place.next().unwrap()));
    let _outage = store.outage();
    for (others, mut waiter) in waiters.into_iter().enumerate() {
        let code = waiter.finish();
        let printed = waiter.rest();
        assert_eq!(code, 69, "{others}: {printed}");
        let last = printed.lines().last().unwrap();
        assert!(
            last.contains("and the store does not answer (") && last.contains("). Try: "),
            "{printed}"
        );
    }
}

#[test]
fn try_and_nonblock_take_no_place_in_line() {
    let store = Store::new();
    let _holder = store.hold("a");
    for flag in ["-n", "--try", "--nonblock"] {
        let output = store.output(&["run", "a", "--json", flag, "--", "true"]);
        assert_eq!(output.status.code(), Some(75));
        assert!(!stderr(&output).contains("\"queued\""), "{}", stderr(&output));
    }
}

#[test]
fn conflict_exit_code_is_for_a_busy_lock_only() {
    let store = Store::new();
    let _holder = store.hold("a");
    let busy = ["run", "a", "--json", "-n", "-E", "0", "--", "true"];
    let exited = event(&store.output(&busy), "exited");
    assert_eq!((&exited["code"], &exited["cause"]), (&0.into(), &"busy".into()));
    assert_eq!(store.code(&["run", "b", "-E", "0", "--", "sh", "-c", "exit 3"]), 3);
    assert_eq!(store.code(&["run", "b", "-E", "0", "--", "no-such-command"]), 127);
}

#[test]
fn ttl_is_30_s_and_what_the_flag_says() {
    let store = Store::new();
    let ttl = |args: &[&str]| {
        event(&store.output(&[&["run", "a", "--json"], args].concat()), "acquired")["ttl_ms"]
            .clone()
    };
    assert_eq!(ttl(&["--", "true"]), 30_000);
    assert_eq!(ttl(&["-t", "2s", "--", "true"]), 2000);
    assert_eq!(ttl(&["--ttl", "1m30s", "--", "true"]), 90_000);
}

#[test]
fn lock_delay_keeps_a_vanished_holders_lock_and_not_a_released_one() {
    let store = Store::new();
    let args = ["run", "a", "--json", "-t", "1s", "--lock-delay", "2s", "--", "cat"];
    let mut holder = store.start(&args);
    holder.event("started");
    assert_eq!(holder.finish(), 0);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
    let mut holder = store.start(&args);
    holder.event("started");
    let killed = Instant::now();
    holder.signal(Signal::KILL);
    holder.wait();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    // Without a delay a killed process frees its lock at once.
    assert!(killed.elapsed() >= Duration::from_millis(1900), "{:?}", killed.elapsed());
}

#[test]
fn reason_is_shown_to_those_who_look() {
    let store = Store::new();
    let mut holder = store.start(&["run", "a", "--json", "--reason", "build 4711", "--", "cat"]);
    holder.event("started");
    assert_eq!(store.inspect("a")["holders"][0]["reason"], "build 4711");
    assert!(stdout(&store.output(&["inspect", "a"])).contains("build 4711"));
    assert_eq!(holder.finish(), 0);
}

#[test]
fn owner_is_the_flag_then_the_variable_then_user_host_and_pid() {
    let store = Store::new();
    let owner = |args: &[&str], variable: &str| {
        let inside = format!("{} -S {} inspect --json a", binary().display(), store.url());
        let mut command =
            store.command(&[&["run", "a"], args, &["--", "sh", "-c", &inside]].concat());
        let output = command.env("LOCKKEEPER_OWNER", variable).env("USER", "me").output().unwrap();
        let seen: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        seen["holders"][0]["owner"].as_str().unwrap().to_owned()
    };
    assert_eq!(owner(&["--owner", "flag"], "variable"), "flag");
    assert_eq!(owner(&[], "variable"), "variable");
    let default = owner(&[], "");
    let (user, pid) = (default.split('@').next().unwrap(), default.rsplit(':').next().unwrap());
    assert!(user == "me" && pid.parse::<u32>().is_ok(), "{default}");
}

#[test]
fn prefix_is_put_before_every_name_of_every_command() {
    let store = Store::new();
    let mut holder = store.start(&["--prefix", "p/", "run", "a", "--json", "--", "cat"]);
    assert_eq!(holder.event("acquired")["lock"], "a");
    holder.event("started");
    assert_eq!(store.inspect("p/a")["state"], "held");
    assert_eq!(store.code(&["inspect", "a"]), 1);
    for (flag, name) in [(&["--prefix", "p/"][..], "a"), (&["--prefix", ""], "p/a")] {
        let mut command = store.command(&[flag, &["inspect", name]].concat());
        // An empty flag replaces the variable too.
        assert_eq!(
            command.env("LOCKKEEPER_PREFIX", "other/").output().unwrap().status.code(),
            Some(0),
            "{flag:?}"
        );
    }
    assert_eq!(store.code(&["acquire", "a", "--prefix", "p/", "-n", "--handle-file", "h"]), 75);
    assert!(
        stdout(&store.output(&["list", "--prefix", "p/", "--json"])).contains("\"lock\":\"a\"")
    );
    // 253 bytes and 3 are one too many.
    let long = "x".repeat(253);
    assert_eq!(store.code(&["run", &long, "--prefix", "p/", "-n", "--", "true"]), 0);
    assert_eq!(store.code(&["run", &long, "--prefix", "pq/", "-n", "--", "true"]), 64);
}

#[test]
fn store_is_the_flag_then_the_variable() {
    let (of_flag, of_variable) = (Store::new(), Store::new());
    let run = |args: &[&str]| {
        let mut command = program();
        command
            .args(args)
            .args(["run", "a", "--", "true"])
            .env("LOCKKEEPER_STORE", of_variable.url());
        assert_eq!(command.output().unwrap().status.code(), Some(0));
    };
    run(&["-S", &of_flag.url()]);
    assert!(of_flag.database().exists() && !of_variable.database().exists());
    run(&[]);
    assert!(of_variable.database().exists());
}

#[test]
fn connect_timeout_limits_a_silent_store_at_the_start() {
    let store = Store::new();
    drop(store.hold("a"));
    let _outage = store.outage();
    for command in [&["run", "a", "--", "true"][..], &["acquire", "a", "--handle-file", "h"]] {
        let began = Instant::now();
        let output = store.output(&[&["--connect-timeout", "700ms"], command].concat());
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
        assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
        assert!(
            stderr(&output).contains(&format!("{} did not answer within 700ms", store.url())),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn quiet_leaves_errors_and_verbose_says_more() {
    let store = Store::new();
    let _holder = store.hold("a");
    let printed = |args: &[&str], log: &str| {
        let mut command =
            store.command(&[args, &["run", "a", "-w", "100ms", "--", "true"]].concat());
        stderr(&command.env("LOCKKEEPER_LOG", log).output().unwrap())
    };
    assert_eq!(printed(&["-q"], "debug"), "");
    assert_eq!(printed(&["--quiet"], ""), "");
    assert!(printed(&[], "").lines().last().unwrap().contains("not acquired"));
    let loud = printed(&["-v"], "off");
    assert!(loud.contains("waiting, 1 ahead"), "{loud}");
    assert!(printed(&["-vv"], "off").lines().count() > loud.lines().count());
    let refused = store.output(&["-q", "run", "", "--", "true"]);
    assert!(stderr(&refused).contains("cannot be the name of a lock"), "{}", stderr(&refused));
}

#[test]
fn log_is_a_level_or_a_filter() {
    let store = Store::new();
    let printed = |log: &str| {
        let output =
            store.command(&["run", "a", "--", "true"]).env("LOCKKEEPER_LOG", log).output().unwrap();
        (output.status.code().unwrap(), stderr(&output))
    };
    assert_eq!(printed("warn"), (0, String::new()));
    for loud in ["trace", "lockkeeper=trace"] {
        let (code, log) = printed(loud);
        assert!(code == 0 && log.contains("lockkeeper"), "{loud}: {log}");
        assert!(!log.contains('\u{1b}'), "colours go to terminals only: {log:?}");
    }
    for wrong in ["lockkeeper=loud", "garbage", "warn,garbage"] {
        let (code, log) = printed(wrong);
        assert!(code == 78 && log.contains("Try: error, warn, info, debug or trace"), "{log}");
    }
    for right in ["lockkeeper", "DEBUG", "0", "off", "warn,lockkeeper=info", "tokio=warn"] {
        assert_eq!(printed(right).0, 0, "{right}");
    }
}

#[test]
fn json_is_for_answers_on_stdout_and_events_on_stderr() {
    let store = Store::new();
    let _holder = store.hold("a");
    let commands = [
        &["list"][..],
        &["inspect", "a"],
        &["leader", "a"],
        &["check", "lk1.x.7.a"],
        &["doctor"],
        &["bench", "--seconds", "50ms"],
    ];
    for command in commands {
        for args in [[&["--json"], command].concat(), [command, &["--json"]].concat()] {
            let answer = stdout(&store.output(&args));
            assert!(!answer.is_empty(), "{args:?}");
            for line in answer.lines() {
                assert!(
                    serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()),
                    "{args:?}: {line}"
                );
            }
        }
    }
    let help = stdout(&store.output(&["list", "--help", "--all"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Answers as JSON on stdout, one object a line"), "{help}");
    let run = store.output(&["run", "b", "--json", "--", "true"]);
    assert_eq!(stdout(&run), "");
    assert_eq!(event(&run, "exited")["code"], 0);
}
