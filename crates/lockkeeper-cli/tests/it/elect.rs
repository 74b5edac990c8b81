//! `elect`: a command on one of several machines, again and again.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use lockkeeper::store::Evict;
use lockkeeper::{Keeper, Leader};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    FREE_AFTER_DEATH, Process, Store, children, event_names, events, eventually, is_alive, script,
    sh, signal, stderr, stdout, text, waiters,
};

/// A candidate whose command ends when stdin ends.
fn candidate(store: &Store, owner: &str, more: &[&str]) -> Process {
    store.start(&[&["--owner", owner, "elect", "a", "--json"], more, &["--", "cat"]].concat())
}

/// The lease of a killed holder: some stores notice the end of the lease only.
const AFTER_A_KILL: &str = "10s";

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

/// The next leader that the library reports.
async fn observed(observer: &mut lockkeeper::Observer) -> Leader {
    loop {
        // A vacancy may be seen in between, or not.
        if let Some(leader) = observer.next().await.unwrap() {
            return leader;
        }
    }
}

#[test]
fn of_three_candidates_one_leads_and_kill_9_makes_another_lead() {
    let store = Store::new();
    let mut leader = candidate(&store, "one", &["--ttl", AFTER_A_KILL, "--value", "one:80"]);
    leader.event("started");
    let mut others: Vec<_> = [("two", "two:80"), ("three", "three:80")]
        .map(|(owner, value)| {
            let mut other = candidate(&store, owner, &["--value", value]);
            other.event("queued");
            other
        })
        .into();
    let watch = store.start(&["watch", "--json", "a"]);
    let printed = || {
        let change: Value = serde_json::from_str(&watch.line()).unwrap();
        ["event", "owner"].map(|key| change[key].as_str().unwrap().to_owned())
    };
    assert_eq!(printed(), ["held", "one"]);
    assert_eq!([printed(), printed()].map(|[event, _]| event), ["queued", "queued"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut observer = runtime.block_on(async {
        let keeper = Keeper::from_url(&store.url()).unwrap().connect().await.unwrap();
        keeper.election("a").unwrap().observe()
    });
    let seen = runtime.block_on(observed(&mut observer));
    assert_eq!((seen.owner.as_str(), seen.value.as_slice()), ("one", &b"one:80"[..]));
    assert_eq!(stdout(&store.output(&["leader", "a"])), "one:80\n");

    leader.signal(Signal::KILL);
    let killed = Instant::now();
    others[0].event("started");
    let took = killed.elapsed();
    println!("another one led {took:?} after kill -9");
    assert!(took < FREE_AFTER_DEATH, "{took:?}");
    leader.wait();
    let [gone, owner] = printed();
    assert!(["left", "free"].contains(&gone.as_str()) && owner == "one", "{gone} {owner}");
    assert_eq!(printed(), ["held", "two"]);
    let next = runtime.block_on(observed(&mut observer));
    assert_eq!((next.owner.as_str(), next.value.as_slice()), ("two", &b"two:80"[..]));
    assert!(next.token > seen.token);
    assert_eq!(stdout(&store.output(&["leader", "a"])), "two:80\n");

    assert_eq!(others[0].finish(), 0);
    others[1].event("started");
    assert_eq!(runtime.block_on(observed(&mut observer)).owner, "three");
    assert_eq!(others[1].finish(), 0);
    let rest: Vec<_> = std::iter::repeat_with(printed)
        .take_while(|[event, _]| event != "free")
        .flatten()
        .collect();
    assert!(rest.ends_with(&["held".into(), "three".into()]), "{rest:?}");
    assert_eq!(store.code(&["leader", "a"]), 1);
}

#[test]
fn a_successful_command_ends_elect_and_has_the_events_of_run() {
    let store = Store::new();
    let output = store.output(&["elect", "a", "--json", "--", "echo", "x"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "x\n"));
    let all = stderr(&output);
    assert_eq!(event_names(&all), ["acquired", "started", "released", "exited"]);
    assert_eq!(events(&all)[0]["mode"], "exclusive");
    assert_eq!(stderr(&store.output(&["elect", "a", "--", "true"])), "");
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

#[test]
fn r8_kill_9_of_a_leader_kills_its_command() {
    let store = Store::new();
    let mut elect =
        store.start(&sh(&["elect", "a", "--json", "--ttl", AFTER_A_KILL], "echo $$; sleep 1000"));
    let pid = elect.line();
    elect.event("started");
    elect.signal(Signal::KILL);
    elect.wait();
    eventually("the command is dead", || !crate::support::is_alive(&pid));
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
}

#[test]
fn a_campaign_can_have_a_limit() {
    let store = Store::new();
    let _holder = store.hold("a");
    assert_eq!(store.code(&["elect", "a", "-w", "200ms", "--", "touch", "started"]), 75);
    assert_eq!(store.code(&["elect", "a", "-w", "0", "-E", "7", "--", "touch", "started"]), 7);
    assert!(!store.path("started").exists());
}

#[test]
fn a_command_that_cannot_start_is_not_campaigned_for() {
    let store = Store::new();
    let _holder = store.hold("a");
    for (command, code) in [("no-such-command", 127), ("/", 126)] {
        assert_eq!(store.code(&["elect", "a", "--", command]), code);
    }
}

#[test]
fn the_command_has_the_environment_that_run_gives() {
    let store = Store::new();
    let mut command = store.command(&["elect", "a", "--json", "--", "env"]);
    let output = command.env("LOCKKEEPER_PASSWORD", "hunter2").output().unwrap();
    let (env, all) = (stdout(&output), stderr(&output));
    let acquired = &events(&all)[0];
    let token = acquired["token"].as_str().unwrap();
    for line in [
        "LOCKKEEPER_LOCK=a",
        "LOCKKEEPER_LOCKS=a",
        "LOCKKEEPER_MODE=exclusive",
        &format!("LOCKKEEPER_FENCING_TOKEN={token}"),
        &format!("LOCKKEEPER_SEQUENCER=lk1.x.{token}.a"),
    ] {
        assert!(env.lines().any(|known| known == line), "{line}: {env}");
    }
    assert!(!env.contains("hunter2"), "{env}");
}

#[test]
fn leader_prints_the_value_and_nothing_for_nobody() {
    let store = Store::new();
    let asked = |args: &[&str]| {
        let output = store.output(&[&["leader", "a"], args].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    // A missing store is reported.
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    assert_eq!(asked(&[]), (Some(1), String::new(), String::new()));
    let nobody =
        json!({"lock": "a", "value": null, "owner": null, "token": null, "since_ms": null});
    let (code, printed, _) = asked(&["--json"]);
    assert_eq!((code, printed.parse::<Value>().unwrap()), (Some(1), nobody));
    let mut elect = candidate(&store, "me@here", &["--value", "10.0.0.7:8080"]);
    let token = elect.event("acquired")["token"].clone();
    elect.event("started");
    assert_eq!(asked(&[]), (Some(0), "10.0.0.7:8080\n".to_owned(), String::new()));
    let (code, printed, _) = asked(&["--json"]);
    let mut printed: Value = printed.parse().unwrap();
    assert!(printed["since_ms"].take().is_u64());
    let expected = json!({"lock": "a", "value": "10.0.0.7:8080", "owner": "me@here", "token": token, "since_ms": null});
    assert_eq!((code, printed), (Some(0), expected));
    assert_eq!(elect.finish(), 0);
    assert_eq!(asked(&[]).0, Some(1));
}

#[test]
fn value_is_the_owner_unless_it_is_given() {
    let store = Store::new();
    let mut elect = candidate(&store, "me@here", &[]);
    elect.event("started");
    assert_eq!(stdout(&store.output(&["leader", "a"])), "me@here\n");
    assert_eq!(elect.finish(), 0);
    let mut elect = candidate(&store, "me@here", &["--value", ""]);
    elect.event("started");
    let output = store.output(&["leader", "a"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "\n"));
    let long = "x".repeat(64 * 1024 + 1);
    let output = store.output(&["elect", "a", "--value", &long, "--", "true"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(stderr(&output).contains("Try: at most 65536"), "{}", stderr(&output));
}

#[test]
fn a_value_that_is_no_text_is_shown_all_the_same() {
    let store = Store::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let keeper = Keeper::from_url(&store.url()).unwrap().connect().await.unwrap();
        let leadership =
            keeper.election("a").unwrap().campaign(b"a\n\xff".as_slice()).await.unwrap();
        assert_eq!(stdout(&store.output(&["leader", "a"])), "a\\n\\xff\n");
        let printed: Value = stdout(&store.output(&["leader", "a", "--json"])).parse().unwrap();
        assert_eq!((&printed["value"], &printed["value_base64"]), (&Value::Null, &json!("YQr/")));
        leadership.resign().await.unwrap();
    });
}

#[test]
fn leader_takes_the_prefix_and_nobody_who_shares_leads() {
    let store = Store::new();
    let mut elect = candidate(&store, "me", &["--prefix", "p/"]);
    elect.event("started");
    let printed: Value =
        stdout(&store.output(&["leader", "a", "--prefix", "p/", "--json"])).parse().unwrap();
    assert_eq!((&printed["lock"], &printed["value"]), (&"a".into(), &"me".into()));
    assert_eq!(store.code(&["leader", "a"]), 1);
    // The leadership is the lock with its name.
    assert_eq!(store.code(&["run", "p/a", "-n", "--", "true"]), 75);
    assert_eq!(elect.finish(), 0);
    let mut reader = store.start(&["run", "r", "--shared", "--json", "--", "cat"]);
    reader.event("started");
    assert_eq!(store.code(&["leader", "r"]), 1);
    for bad in ["", "a\nb"] {
        assert_eq!(store.code(&["leader", bad]), 64);
    }
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
