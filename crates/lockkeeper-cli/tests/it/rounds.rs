//! What follows a round of `elect`: the end, or another campaign after a pause.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use rustix::process::Signal;
use serde_json::Value;

use super::elect::candidate;
use crate::support::{
    Process, Store, children, eventually, is_alive, script, sh, signal, stderr, text, waiters,
};

/// Takes a number from a file and exits with the code after the number.
const COUNTED: &str = "n=$(cat number); echo $((n + 1)) > number; exit $(eval echo \\$$n)";

/// Runs a command that exits with these codes, one after the other.
fn exits(store: &Store, more: &[&str], codes: &[&str]) -> Process {
    fs::write(store.path("number"), "1\n").unwrap();
    let command = [&["--", "sh", "-c", COUNTED, "sh"], codes].concat();
    store.start(&[&["elect", "a", "--json"], more, &command].concat())
}

fn pause(restarting: &Value) -> u64 {
    restarting["after_ms"].as_u64().unwrap()
}

#[test]
fn event_restarting_reports_a_failed_command_before_the_next_campaign() {
    let store = Store::new();
    let mut elect = exits(&store, &[], &["3", "4", "0"]);
    let mut tokens =
        vec![elect.event("acquired")["token"].as_str().unwrap().parse::<u64>().unwrap()];
    for (code, pauses) in [(3, 1000..=1500), (4, 2000..=3000)] {
        let restarting = elect.event("restarting");
        let keys: Vec<&String> = restarting.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["after_ms", "cause", "code", "event", "lock", "time"]);
        assert_eq!((&restarting["code"], &restarting["cause"]), (&code.into(), &"child".into()));
        assert!(pauses.contains(&pause(&restarting)), "{restarting}");
        let printed = Instant::now();
        tokens.push(elect.event("acquired")["token"].as_str().unwrap().parse().unwrap());
        // The test may read the first line late and the second in time.
        assert!(
            printed.elapsed() + Duration::from_millis(500)
                >= Duration::from_millis(*pauses.start())
        );
    }
    assert_eq!(elect.finish(), 0);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let round = ["acquired", "started", "released", "restarting"];
    assert_eq!(
        elect.events(),
        [&round[..], &round, &["acquired", "started", "released", "exited"]].concat()
    );
}

#[test]
fn a_command_that_dies_by_a_signal_has_failed() {
    let store = Store::new();
    let script = "test -e again && exit 0; touch again; kill -KILL $$";
    let mut elect = store.start(&sh(&["elect", "a", "--json"], script));
    let restarting = elect.event("restarting");
    assert_eq!((&restarting["code"], &restarting["cause"]), (&137.into(), &"signal".into()));
    assert_eq!(elect.finish(), 0);
}

#[test]
fn restart_never_ends_with_the_commands_code_and_a_loss_with_79() {
    let store = Store::new();
    let mut elect = exits(&store, &["--restart", "never"], &["3", "0"]);
    assert_eq!(elect.finish(), 3);
    assert_eq!(elect.events(), ["acquired", "started", "released", "exited"]);
    let mut elect = candidate(&store, "me", &["--restart", "never", "--max-hold", "300ms"]);
    assert_eq!(elect.event("lost")["reason"], "max_hold");
    assert_eq!(elect.wait().code(), Some(79));
}

#[test]
fn restart_always_goes_on_after_success_too() {
    let store = Store::new();
    let mut elect = exits(&store, &["--restart", "always"], &["0", "0", "0", "0", "0"]);
    for _ in 0..2 {
        let restarting = elect.event("restarting");
        assert_eq!((&restarting["code"], &restarting["cause"]), (&0.into(), &"child".into()));
    }
    elect.signal(Signal::TERM);
    assert_eq!(elect.finish(), 143);
}

#[test]
fn people_read_why_it_campaigns_again() {
    let store = Store::new();
    fs::write(store.path("number"), "1\n").unwrap();
    let args = ["elect", "a", "--", "sh", "-c", COUNTED, "sh", "3", "0"];
    let printed = stderr(&store.output(&args));
    assert!(printed.starts_with("lockkeeper: lock \"a\": campaigning again in 1."), "{printed}");
    assert!(
        printed.ends_with("s: the command ended with exit code 3\n")
            && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn while_one_candidate_pauses_another_leads() {
    let store = Store::new();
    let mut first =
        store.start(&["--owner", "one", "elect", "a", "--json", "--", "sh", "-c", "cat; exit 1"]);
    first.event("started");
    let mut second = candidate(&store, "two", &[]);
    second.event("queued");
    first.close_stdin();
    first.event("restarting");
    // Well before the end of the first candidate's pause, since that candidate has resigned.
    second.event("started");
    let lock = store.inspect_until("a", |lock| waiters(lock) == 1);
    assert_eq!(lock["holders"][0]["owner"], "two");
    assert_eq!(lock["waiters"][0]["owner"], "one");
    assert_eq!(second.finish(), 0);
    first.event("acquired");
    first.event("started");
    first.signal(Signal::TERM);
    first.wait();
}

#[test]
fn a_lost_leadership_ends_the_command_and_is_campaigned_for_again() {
    let store = Store::new();
    let mut elect = candidate(&store, "me", &["-t", "12s"]);
    let token = elect.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    let first = elect.event("started")["pid"].clone();
    store.break_lock("a", token, Evict::Mark);
    assert_eq!(elect.event("lost")["reason"], "broken");
    let restarting = elect.event("restarting");
    assert_eq!((&restarting["code"], &restarting["cause"]), (&79.into(), &"lost".into()));
    let again = elect.event("acquired")["token"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(again > token);
    assert_ne!(elect.event("started")["pid"], first);
    assert_eq!(elect.finish(), 0);
    assert_eq!(elect.events().last().unwrap(), "exited");
}

#[test]
fn a_leader_that_loses_its_store_leads_again_when_that_is_back() {
    for limit in [&[][..], &["-w", "100ms"]] {
        let store = Store::new();
        let mut elect = candidate(&store, "me", &[&["-t", "1s"], limit].concat());
        elect.event("started");
        let outage = store.outage();
        assert_eq!(elect.event("lost")["reason"], "expired");
        assert_eq!(elect.event("restarting")["code"], 79);
        if !limit.is_empty() {
            // A campaign that does not get anywhere is no reason to give up.
            let restarting = elect.event("restarting");
            assert_eq!((&restarting["code"], &restarting["cause"]), (&69.into(), &"error".into()));
        }
        drop(outage);
        elect.event("started");
        assert_eq!(elect.finish(), 0);
    }
}

#[test]
fn a_command_missing_in_a_later_round_runs_when_it_is_back() {
    let store = Store::new();
    script(&store.path("work"), "#!/bin/sh\nmv work away\nexit 3\n");
    let mut elect = store.start(&["elect", "a", "--json", "--", "./work"]);
    assert_eq!(elect.event("restarting")["code"], 3);
    let restarting = elect.event("restarting");
    assert_eq!((&restarting["code"], &restarting["cause"]), (&127.into(), &"error".into()));
    script(&store.path("back"), "#!/bin/sh\nexit 0\n");
    fs::rename(store.path("back"), store.path("work")).unwrap();
    assert_eq!(elect.finish(), 0);
}

#[test]
fn nothing_that_was_killed_stays_a_zombie() {
    let store = Store::new();
    // The second time, no command stays.
    let script = "test -e again && exec cat; touch again; \
                  sh -c 'trap \"\" TERM; while :; do sleep 0.02; done' & setsid sleep 1000 & echo ready; cat; wait";
    let mut elect = store.start(&sh(&["elect", "a", "--json", "-t", "3s", "-k", "100ms"], script));
    let token = elect.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(elect.line(), "ready");
    store.break_lock("a", token, Evict::Mark);
    elect.event("restarting");
    let pid = elect.pid();
    eventually("all is reaped", || children(pid).is_empty());
    // PID 1 gets the orphans of the next command again, and not `elect`.
    elect.event("started");
    elect.signal(Signal::TERM);
    elect.wait();
}

#[test]
fn a_signal_that_asks_for_the_end_is_the_end() {
    let store = Store::new();
    for (signal, trap, code) in [
        (Signal::TERM, "exit 0", 0),
        (Signal::INT, "exit 5", 5),
        (Signal::QUIT, "exit 5", 5),
        (Signal::TERM, "-", 143),
    ] {
        let script =
            format!("trap '{trap}' TERM INT QUIT; echo ready; while :; do sleep 0.02; done");
        let mut elect = store.start(&sh(&["elect", "a", "--json", "--restart", "always"], &script));
        assert_eq!(elect.line(), "ready");
        elect.signal(signal);
        assert_eq!(elect.finish(), code, "{signal:?} {trap}");
        assert_eq!(elect.events(), ["acquired", "started", "released", "exited"], "{signal:?}");
        assert_eq!(store.inspect("a")["state"], "free");
    }
}

#[test]
fn hup_is_a_word_to_the_command_unless_it_ends_by_it() {
    let store = Store::new();
    let script = "test -e again && exit 0; touch again; trap 'echo reloaded; exit 1' HUP; echo ready; \
                  while :; do sleep 0.02; done";
    let mut elect = store.start(&sh(&["elect", "a", "--json"], script));
    assert_eq!(elect.line(), "ready");
    elect.signal(Signal::HUP);
    assert_eq!(elect.line(), "reloaded");
    // The command failed later, for a reason of its own.
    assert_eq!(elect.event("restarting")["code"], 1);
    assert_eq!(elect.finish(), 0);
    let mut elect = candidate(&store, "me", &[]);
    elect.event("started");
    elect.signal(Signal::HUP);
    assert_eq!(elect.wait().signal(), Some(1));
    assert_eq!(elect.events().last().unwrap(), "exited");
}

/// The third pause lasts for 4 s and more.
fn in_a_long_pause(store: &Store) -> Process {
    let mut elect = exits(store, &[], &["3", "3", "3", "0"]);
    (0..3).for_each(|_| drop(elect.event("restarting")));
    elect
}

#[test]
fn r3_a_signal_in_a_pause_or_in_the_queue_ends_elect_at_once() {
    let store = Store::new();
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut elect = in_a_long_pause(&store);
        elect.signal(signal);
        assert_eq!(elect.wait().signal(), Some(signal.as_raw()));
        // After the pause another round would have begun.
        assert_eq!(elect.events().last().unwrap(), "exited");
        assert_eq!(text(store.path("number")), "4\n");
    }
    let _holder = store.hold("a");
    let mut elect = candidate(&store, "me", &[]);
    elect.event("queued");
    elect.signal(Signal::TERM);
    assert_eq!(elect.wait().signal(), Some(15));
    assert_eq!(waiters(&store.inspect("a")), 0);
}

#[test]
fn r3_a_reload_ends_no_candidate_that_pauses_or_waits() {
    let store = Store::new();
    let reload = |elect: &Process| {
        [Signal::HUP, Signal::USR1, Signal::USR2].map(|signal| elect.signal(signal))
    };
    let mut elect = in_a_long_pause(&store);
    reload(&elect);
    elect.event("started");
    assert_eq!(elect.finish(), 0);
    let mut holder = store.hold("a");
    let mut elect = candidate(&store, "me", &[]);
    elect.event("queued");
    reload(&elect);
    assert_eq!(holder.finish(), 0);
    elect.event("started");
    assert_eq!(elect.finish(), 0);
}

/// `elect` is stopped meanwhile, and so sees the end of the command first. The command's background
/// processes go on: no other round may begin beside them.
#[test]
fn exit_code_0_ends_elect_though_the_leadership_was_lost() {
    let store = Store::new();
    let script = "sleep 1000 >/dev/null 2>&1 & echo $$ $!; kill -STOP $PPID";
    let mut elect = store.start(&sh(&["elect", "a", "--json"], script));
    let token = elect.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    let line = elect.line();
    let (shell, left) = line.split_once(' ').unwrap();
    eventually("it has ended", || !is_alive(shell));
    store.break_lock("a", token, Evict::Now);
    elect.signal(Signal::CONT);
    assert_eq!(elect.event("exited")["code"], 79);
    assert_eq!(elect.finish(), 79);
    assert!(is_alive(left));
    signal(left.parse().unwrap(), Signal::KILL);
}
