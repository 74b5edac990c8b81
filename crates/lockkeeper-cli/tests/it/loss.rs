//! A lost lock never goes on silently: R6 and R14.

use std::thread;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use rustix::process::Signal;

use crate::support::{FREE_AFTER_DEATH, Process, Store, guard, is_alive, sh, signal};

/// A run with a ttl of 3 s, so that TERM comes when 1 s of it is left.
const SHORT: [&str; 5] = ["run", "a", "--json", "-t", "3s"];

#[test]
fn r6_silence_terminates_the_command_before_the_deadline() {
    let store = Store::new();
    let mut run =
        store.start(&sh(&SHORT, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done"));
    assert_eq!(run.line(), "ready");
    let outage = store.outage();
    let began = Instant::now();
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"expired".into(), &"TERM".into()));
    assert_eq!(run.finish(), 79);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(outage);
    assert_eq!(run.events().last().unwrap(), "exited");
    assert!(run.seen.last().unwrap().contains("\"code\":79,\"cause\":\"lost\""), "{:?}", run.seen);
}

#[test]
fn r6_silence_kills_what_ignores_term_before_the_deadline() {
    let store = Store::new();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "9s"], script));
    assert_eq!(run.line(), "ready");
    let _outage = store.outage();
    let outage_began = Instant::now();
    run.event("lost");
    let lost = Instant::now();
    assert_eq!(run.finish(), 79);
    // TERM comes 3 s before the deadline, and KILL 0.1 s before it. Then `run` asks the store for
    // the release for a while.
    assert!(lost.elapsed() > Duration::from_millis(1400), "{:?}", lost.elapsed());
    assert!(outage_began.elapsed() < Duration::from_secs(20), "{:?}", outage_began.elapsed());
}

#[test]
fn r6_the_next_holder_finds_the_command_dead() {
    let store = Store::new();
    // Each beat of the command is on record, and so is the moment at which the next one gets the
    // lock.
    let beat = "trap '' TERM; echo ready; while :; do date +%s%N >> beats; sleep 0.02; done";
    let mut run = store.start(&sh(&SHORT, beat));
    assert_eq!(run.line(), "ready");
    let mut next = store.queue(&sh(&["run", "a"], "date +%s%N > granted"), "a", 0);
    let outage = store.outage();
    run.event("lost");
    // TERM came 1 s before the deadline: now the store may give the lock away, and is there to do
    // so.
    thread::sleep(Duration::from_millis(1200));
    drop(outage);
    assert_eq!(run.finish(), 79);
    assert_eq!(next.finish(), 0, "{}", next.rest());
    let time = |text: &str| text.trim().parse::<u128>().unwrap();
    let granted = time(&std::fs::read_to_string(store.path("granted")).unwrap());
    let beats = std::fs::read_to_string(store.path("beats")).unwrap();
    let last = beats.lines().filter(|line| !line.is_empty()).map(time).max().unwrap();
    assert!(last < granted, "beat at {last}, granted at {granted}");
}

/// The lease has not run out when TERM comes. A renewal that is answered afterwards changes
/// nothing.
#[test]
fn r6_people_learn_of_the_loss() {
    let store = Store::new();
    let script = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "-t", "6s"], script));
    assert_eq!(run.line(), "ready");
    let outage = store.outage();
    assert_eq!(run.line(), "heard");
    drop(outage);
    assert_eq!(run.finish(), 79);
    let rest = run.rest();
    assert!(
        rest.contains(
            "lock \"a\": lost: no renewal was answered in time, and the lease expires in "
        ),
        "{rest}"
    );
    assert!(!rest.contains("the store answers again"), "{rest}");
}

#[test]
fn r6_a_broken_lock_terminates_the_command_now() {
    let store = Store::new();
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "12s"], script));
    assert_eq!(run.line(), "ready");
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    store.break_lock("a", token, Evict::Mark);
    let lost = run.event("lost");
    assert_eq!((&lost["reason"], &lost["signal"]), (&"broken".into(), &"TERM".into()));
    assert_eq!(run.finish(), 79);
    assert_eq!(run.events().last().unwrap(), "exited");
}

#[test]
fn r6_a_lock_that_is_gone_at_the_release_was_lost() {
    let store = Store::new();
    let mut run = store.start(&["run", "a", "--json", "-t", "60s", "--", "cat"]);
    let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
    run.event("started");
    store.break_lock("a", token, Evict::Now);
    assert_eq!(run.finish(), 79);
    assert_eq!(run.events(), ["acquired", "started", "lost", "exited"]);
}

/// An operator has to end them.
#[test]
fn r7_a_loss_names_the_daemons_that_go_on() {
    let store = Store::new();
    // Only a process that a look has seen without its parent is a daemon.
    let run = |daemon: &str| {
        let script = format!("echo $(sh -c '{daemon} & echo $!'); sleep 1000");
        store.start(&sh(&["run", "a", "-t", "9s", "--max-hold", "4s"], &script))
    };
    let mut with_daemon = run("setsid sleep 1000 >/dev/null 2>&1");
    let daemon = with_daemon.line();
    let code = with_daemon.finish();
    let was_alive = is_alive(&daemon);
    signal(daemon.parse().unwrap(), Signal::KILL);
    let printed = with_daemon.rest();
    assert_eq!((code, was_alive), (79, true), "{printed}");
    let warning = format!("started go on without the lock: {daemon}. Try: end them by hand");
    assert!(printed.contains(&warning), "{printed}");

    let mut without = run("sleep 1000 >/dev/null 2>&1");
    let job = without.line();
    assert_eq!((without.finish(), is_alive(&job)), (79, false));
    assert!(!without.rest().contains("daemons"), "{:?}", without.seen);
}

/// Nothing is left that could end the command. The resource refuses its token, which is lower.
#[test]
fn r8_a_kill_of_run_and_its_guard_leaves_the_command_beside_the_next_one() {
    let store = Store::new();
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "9s"], "echo $$; exec sleep 1000"));
    let token = |run: &mut Process| {
        run.event("acquired")["token"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let (command, first) = (run.line(), token(&mut run));
    let supervisors = [run.pid(), guard(&run).parse().unwrap()];
    // A guard that is stopped does not see the end of `run`.
    for kill in [Signal::STOP, Signal::KILL] {
        supervisors.iter().for_each(|pid| signal(*pid, kill));
    }
    run.wait();
    let killed = Instant::now();
    let mut next = store.start(&["run", "a", "--json", "--", "true"]);
    assert!(token(&mut next) > first);
    assert!(killed.elapsed() < FREE_AFTER_DEATH, "{:?}", killed.elapsed());
    assert!(is_alive(&command));
    assert_eq!(next.finish(), 0);
    signal(command.parse().unwrap(), Signal::KILL);
}

#[test]
fn r14_an_outage_that_ends_in_time_changes_nothing_but_events() {
    let store = Store::new();
    // A renewal is due at 4 s, TERM at 8 s.
    let mut run = store.start(&sh(&["run", "a", "--json", "-t", "12s"], "echo ready; cat; exit 4"));
    assert_eq!(run.line(), "ready");
    let outage = store.outage();
    thread::sleep(Duration::from_secs(5));
    drop(outage);
    // By now the lock would have been lost.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(run.finish(), 4);
    let mut events = run.events();
    events.retain(|name| name != "renewal_failed" && name != "recovered");
    assert_eq!(events, ["acquired", "started", "released", "exited"]);
}
