//! For how long a lock is held: `--min-hold` and `--max-hold`.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Process, Store, children, events, eventually, reaped, sh, stderr, stdout, text,
};

#[test]
fn max_hold_that_ends_before_the_confirmation_ends_the_run() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let mut waiter = store.queue(&["run", "a", "--max-hold", "1ms", "--", "sleep", "1000"], "a", 0);
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 79);
    assert_eq!(store.inspect("a")["state"], "free");
}

/// Runs `true` under the lock, and returns how long after `then` it got the lock.
fn next_after(store: &Store, then: Instant) -> Duration {
    assert_eq!(store.code(&["run", "a", "-w", "2m", "--", "true"]), 0);
    then.elapsed()
}

#[test]
fn min_hold_is_kept_by_the_store_and_run_ends_with_its_command() {
    let store = Store::new();
    let mut run = store.start(&sh(&["run", "a", "--json", "--min-hold", "10m"], "exit 3"));
    assert_eq!(run.finish(), 3);
    assert_eq!(run.events(), ["acquired", "started", "released", "exited"]);
    let info = store.inspect("a");
    assert_eq!((&info["state"], &info["holders"][0]["kept"]), (&"kept".into(), &true.into()));
    assert!(info["holders"][0]["expires_in_ms"].as_u64().unwrap() <= 600_000, "{info}");
    let shown = stdout(&store.output(&["inspect", "a"]));
    assert!(shown.contains("(no holder; kept for "), "{shown}");
    assert!(stdout(&store.output(&["list"])).contains(" (kept)"));
    let busy = store.output(&["run", "a", "-n", "--", "true"]);
    assert_eq!(busy.status.code(), Some(75));
    assert!(
        stderr(&busy).contains("; nobody holds it, and it is kept for another "),
        "{}",
        stderr(&busy)
    );
    assert_eq!(store.code(&["run", "a", "-w", "100ms", "--", "true"]), 75);
}

#[test]
fn min_hold_counts_from_the_grant() {
    let store = Store::new();
    let began = Instant::now();
    assert_eq!(store.code(&["run", "a", "--min-hold", "3s", "--", "sleep", "1"]), 0);
    let after = next_after(&store, began);
    assert!(after >= Duration::from_secs(3), "{after:?}");
}

#[test]
fn min_hold_outlives_a_run_that_is_killed() {
    let store = Store::new();
    let began = Instant::now();
    let mut run = store.start(&[
        "run",
        "a",
        "--json",
        "-t",
        "2s",
        "--min-hold",
        "12s",
        "--",
        "sleep",
        "1000",
    ]);
    run.event("started");
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal(), Some(9));
    // If the store does not see the kill, the lease has to end first.
    store.inspect_until("a", |lock| lock["state"] == "kept");
    let busy = store.output(&["run", "a", "-n", "--", "true"]);
    assert_eq!(busy.status.code(), Some(75));
    assert!(
        stderr(&busy).contains("; nobody holds it, and it is kept for another "),
        "{}",
        stderr(&busy)
    );
    let shown = stdout(&store.output(&["inspect", "a"]));
    assert!(shown.contains("(no holder; kept for ") && !shown.contains("released"), "{shown}");
    let after = next_after(&store, began);
    assert!(after >= Duration::from_secs(12), "{after:?}");
}

#[test]
fn min_hold_outlives_a_signal_and_a_break_ends_it() {
    let store = Store::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut run =
            store.start(&["run", "a", "--json", "--min-hold", "10m", "--", "sleep", "1000"]);
        run.event("started");
        run.signal(signal);
        run.wait();
        let info = store.inspect("a");
        assert_eq!(info["state"], "kept", "{signal:?}");
        let token = info["holders"][0]["token"].as_str().unwrap().to_owned();
        let output =
            store.output(&["break", "a", "--yes", "--token", &token, "--reason", "a test"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(store.inspect("a")["state"], "free", "{signal:?}");
    }
}

#[test]
fn min_hold_is_nothing_to_a_command_that_takes_longer() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--json", "--min-hold", "100ms", "--", "sleep", "0.3"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(store.inspect("a")["state"], "free");
}

fn run_token(run: &Process) -> u64 {
    let seen = events(&run.seen.join("\n"));
    seen.iter().find(|event| event["event"] == "acquired").unwrap()["token"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn min_hold_hides_no_loss_while_the_command_ran() {
    let store = Store::new();
    // No renewal reports the loss before the command ends.
    let mut run =
        store.start(&["run", "a", "--json", "-t", "5m", "--min-hold", "10m", "--", "cat"]);
    run.event("started");
    store.break_lock("a", run_token(&run), Evict::Now);
    assert_eq!(run.finish(), 79);
    assert_eq!(run.events(), ["acquired", "started", "lost", "exited"]);
}

#[test]
fn min_hold_is_over_when_the_lock_is_lost() {
    let store = Store::new();
    let mut run = store.start(&[
        "run",
        "a",
        "--json",
        "-t",
        "6s",
        "--min-hold",
        "10m",
        "--",
        "sleep",
        "1000",
    ]);
    run.event("started");
    store.break_lock("a", run_token(&run), Evict::Mark);
    assert_eq!(run.finish(), 79);
    let events = run.events();
    assert_eq!(events.iter().filter(|name| *name == "lost").count(), 1, "{events:?}");
}

#[test]
fn max_hold_ends_the_command() {
    let store = Store::new();
    let began = Instant::now();
    // The lock outlives its ttl, so it is renewed, and is lost all the same.
    let script = "trap 'echo ending; exit 0' TERM; while :; do sleep 0.02; done";
    let mut run = store
        .start(&sh(&["run", "a", "--json", "-t", "9s", "-k", "3s", "--max-hold", "10s"], script));
    let lost = run.event("lost");
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!((&lost["reason"], &lost["signal"]), (&"max_hold".into(), &"TERM".into()));
    assert_eq!(run.line(), "ending");
    assert_eq!(run.finish(), 79);
    // The lock was released while it was still valid.
    assert_eq!(run.events(), ["acquired", "started", "lost", "released", "exited"]);
    assert_eq!(store.code(&["run", "a", "-n", "--", "true"]), 0);
}

#[test]
fn max_hold_kills_what_does_not_end() {
    let store = Store::new();
    let script = "trap '' TERM; while :; do date +%s%N > beat; sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-k", "4s", "--max-hold", "2s"], script));
    run.event("started");
    let mut next = store.queue(&sh(&["run", "a"], "date +%s%N > granted"), "a", 0);
    run.event("lost");
    let lost = Instant::now();
    assert_eq!(run.finish(), 79);
    assert!(lost.elapsed() >= Duration::from_secs(2), "{:?}", lost.elapsed());
    assert_eq!(next.finish(), 0);
    let time = |name: &str| text(store.path(name)).trim().parse::<u128>().unwrap_or(0);
    let (beat, granted) = (time("beat"), time("granted"));
    assert!(beat < granted, "beat at {beat}, granted at {granted}");
}

#[test]
fn max_hold_with_ignore_is_only_an_event() {
    let store = Store::new();
    let mut run = store.start(&sh(
        &["run", "a", "--json", "--max-hold", "300ms", "--on-lost", "ignore"],
        "cat; exit 4",
    ));
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"max_hold".into(), &Value::Null));
    assert_eq!(run.finish(), 4);
}

#[test]
fn exit_64_is_a_hold_that_cannot_be() {
    let store = Store::new();
    for args in [&["--max-hold", "0"][..], &["--min-hold", "2s", "--max-hold", "1s"]] {
        let output = store.output(&[&["run", "a"], args, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(stderr(&output).contains("Try: "), "{}", stderr(&output));
    }
    assert_eq!(
        store.code(&["run", "a", "--min-hold", "10s", "--max-hold", "10s", "--", "true"]),
        0
    );
}

#[test]
fn once_per_runs_the_command_once_per_time_and_is_silent_otherwise() {
    let store = Store::new();
    let once = |script: &str| store.output(&sh(&["run", "a", "--once-per", "10m"], script));
    // One that fails counts.
    assert_eq!(once("echo first >> ran; exit 3").status.code(), Some(3));
    for _ in 0..2 {
        let second = once("echo second >> ran");
        assert_eq!((second.status.code(), stderr(&second).as_str()), (Some(0), ""));
    }
    assert_eq!(text(store.path("ran")), "first\n");
    let token = store.inspect("a")["holders"][0]["token"].as_str().unwrap().to_owned();
    assert_eq!(
        store.code(&["break", "a", "--yes", "--token", &token, "--reason", "run it again"]),
        0
    );
    assert_eq!(once("echo third >> ran").status.code(), Some(0));
    assert_eq!(text(store.path("ran")), "first\nthird\n");
}

#[test]
fn once_per_runs_the_command_again_when_the_time_is_over() {
    let store = Store::new();
    let began = Instant::now();
    eventually("the command runs a second time", || {
        assert_eq!(store.code(&sh(&["run", "a", "--once-per", "2s"], "echo ran >> ran")), 0);
        text(store.path("ran")).lines().count() > 1
    });
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn once_per_does_not_run_beside_a_command_that_takes_longer() {
    let store = Store::new();
    let mut first = store.start(&["run", "a", "--json", "--once-per", "1ms", "--", "cat"]);
    first.event("started");
    let second =
        store.output(&sh(&["run", "a", "--json", "--once-per", "1ms"], "echo second >> ran"));
    assert_eq!(second.status.code(), Some(0));
    let printed: Vec<_> =
        events(&stderr(&second)).into_iter().map(|event| event["event"].clone()).collect();
    assert_eq!(printed, ["busy", "exited"]);
    assert_eq!(first.finish(), 0);
    assert!(!store.path("ran").exists());
}

#[test]
fn exit_64_is_once_per_beside_an_option_that_says_otherwise() {
    let store = Store::new();
    for other in [&["-n"][..], &["-w", "1s"], &["-E", "3"], &["--min-hold", "1s"]] {
        let output =
            store.output(&[&["run", "a", "--once-per", "1h"], other, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(64), "{other:?}: {}", stderr(&output));
    }
    let too_long = store.output(&["run", "a", "--once-per", "8761h", "--", "true"]);
    assert_eq!(too_long.status.code(), Some(64), "{}", stderr(&too_long));
    assert!(stderr(&too_long).contains("min_hold"), "{}", stderr(&too_long));
}

/// The lock has no holder any more.
#[test]
fn break_now_warns_of_no_holder_during_a_minimum_hold() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--min-hold", "10m", "--", "true"]), 0);
    let token = store.inspect("a")["holders"][0]["token"].as_str().unwrap().to_owned();
    let output =
        store.output(&["break", "a", "--yes", "--now", "--token", &token, "--reason", "a test"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(store.inspect("a")["state"], "free");
}

/// The store keeps the permits together with the capacity that the last holder named.
#[test]
fn permits_that_are_kept_keep_their_number_too() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--permits", "1/1", "--min-hold", "10m", "--", "true"]), 0);
    assert_eq!(store.code(&["run", "a", "-n", "--permits", "1/5", "--", "true"]), 75);
}

/// A user who interrupts the release learns how long other clients may have to wait.
#[test]
fn min_hold_is_reported_where_the_release_is_interrupted() {
    let store = Store::new();
    for (more, printed) in
        [(&["--min-hold", "2h"][..], "1h59m"), (&["--lock-delay", "2m"], "2m30s")]
    {
        let mut run =
            store.start(&sh(&[&["run", "a", "--json"], more].concat(), "echo ready; read -r _"));
        let pid = run.event("started")["pid"].as_u64().unwrap().to_string();
        assert_eq!(run.line(), "ready");
        let outage = store.outage();
        run.close_stdin();
        reaped(&pid);
        std::thread::sleep(Duration::from_millis(300));
        run.signal(Signal::INT);
        run.wait();
        let said = run.rest();
        assert!(said.contains("the release is not confirmed (interrupted by signal 2)"), "{said}");
        assert!(said.contains(printed), "{said}");
        drop(outage);
        let info = store.inspect("a");
        if let Some(token) = info["holders"][0]["token"].as_str() {
            store.output(&["break", "a", "--yes", "--now", "--token", token, "--reason", "a test"]);
        }
    }
}

/// A run that is stopped at any of its steps, and so loses the lock, runs its command or reports
/// that it has not.
#[test]
fn once_per_recognises_its_own_kept_lock() {
    let Ok(_) = std::process::Command::new("strace").arg("-V").output() else {
        eprintln!("left out: once_per_recognises_its_own_kept_lock: no strace");
        return;
    };
    let stopped_at = |step: u32| {
        let store = Store::new();
        assert_eq!(store.code(&["run", "z", "--", "true"]), 0);
        let run = store.command(&sh(&["run", "m", "--ttl", "1s", "--once-per", "1h"], "echo RAN"));
        let mut traced = std::process::Command::new("strace");
        let inject = format!("inject=flock:signal=STOP:when={step}");
        traced
            .args(["-f", "-e", "trace=flock", "-e", &inject, "-o", "/dev/null"])
            .arg(run.get_program());
        traced
            .args(run.get_args())
            .current_dir(store.path(""))
            .env("LOCKKEEPER_CONFIG", "/dev/null");
        let mut traced = Process::start(&mut traced);
        // For longer than the lease, if the run is stopped by then.
        std::thread::sleep(Duration::from_millis(2500));
        eventually("the end of the run", || {
            let left = children(traced.pid());
            for pid in &left {
                // The process may have ended since the look.
                let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::CONT);
            }
            left.is_empty()
        });
        let code = crate::support::code_of(traced.wait());
        (code, traced.lines().contains(&"RAN".to_owned()), store.inspect("m")["state"].clone())
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            (8..20).map(|step| (step, scope.spawn(move || stopped_at(step)))).collect();
        for (step, run) in runs {
            let (code, ran, state) = run.join().unwrap();
            assert!(
                code != 0 || ran,
                "stopped at {step}: {code}, the command did not run, and the lock is {state}"
            );
        }
    });
}
