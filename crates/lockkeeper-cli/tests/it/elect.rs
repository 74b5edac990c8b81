//! `elect`: a command on one of several machines, and what `leader` prints.

use std::time::Instant;

use lockkeeper::{Keeper, Leader};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    FREE_AFTER_DEATH, Process, Store, event_names, events, eventually, is_alive, sh, stderr, stdout,
};

/// A candidate whose command ends when stdin ends.
pub(super) fn candidate(store: &Store, owner: &str, more: &[&str]) -> Process {
    store.start(&[&["--owner", owner, "elect", "a", "--json"], more, &["--", "cat"]].concat())
}

/// The lease of a killed holder: some stores notice the end of the lease only.
const AFTER_A_KILL: &str = "10s";

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
fn r8_kill_9_of_a_leader_kills_its_command() {
    let store = Store::new();
    let mut elect =
        store.start(&sh(&["elect", "a", "--json", "--ttl", AFTER_A_KILL], "echo $$; sleep 1000"));
    let pid = elect.line();
    elect.event("started");
    elect.signal(Signal::KILL);
    elect.wait();
    eventually("the command is dead", || !is_alive(&pid));
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
