//! Events with --json: JSON Lines on stderr.

use lockkeeper::store::Evict;
use serde_json::Value;

use crate::support::{Store, code_of, event_names, events, program, sh, stderr, stdout};

fn keys(event: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn events_of_a_plain_run_are_acquired_started_released_exited() {
    let store = Store::new();
    let output = store.output(&["run", "deploy/web", "--json", "--", "true"]);
    let all = stderr(&output);
    assert_eq!(event_names(&all), ["acquired", "started", "released", "exited"]);
    assert_eq!(all.lines().count(), 4, "{all}");
    let events = events(&all);
    for event in &events {
        assert_eq!(event["lock"], "deploy/web");
        let time = event["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[19] == b'.', "{time}");
    }
    let [acquired, started, released, exited] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        keys(acquired),
        ["event", "lock", "mode", "sequencer", "time", "token", "ttl_ms", "waited_ms"]
    );
    assert_eq!((&acquired["mode"], &acquired["ttl_ms"]), (&"exclusive".into(), &30_000.into()));
    let token = acquired["token"].as_str().unwrap();
    assert_eq!(acquired["sequencer"], format!("lk1.x.{token}.deploy%2Fweb"));
    assert!(acquired["waited_ms"].is_u64());
    assert_eq!(keys(started), ["event", "lock", "pid", "time"]);
    assert_eq!(keys(released), ["event", "held_ms", "lock", "time"]);
    assert_eq!(keys(exited), ["cause", "code", "event", "lock", "time"]);
    assert_eq!((&exited["code"], &exited["cause"]), (&0.into(), &"child".into()));
}

#[test]
fn event_started_names_the_commands_own_pid() {
    let store = Store::new();
    let output = store.output(&["run", "a", "--json", "--", "sh", "-c", "echo $$"]);
    let pid = events(&stderr(&output))[1]["pid"].to_string();
    assert_eq!(stdout(&output).trim(), pid);
}

#[test]
fn event_queued_has_the_place_and_the_holder() {
    let store = Store::new();
    let mut holder = store.hold("a");
    let owner = store.inspect("a")["holders"][0]["owner"].clone();
    let mut waiter = store.start(&["run", "a", "--json", "--", "true"]);
    let queued = waiter.event("queued");
    assert_eq!(keys(&queued), ["ahead", "event", "holder", "lock", "time"]);
    assert_eq!((&queued["ahead"], &queued["holder"]), (&1.into(), &owner));
    assert_eq!(holder.finish(), 0);
    assert_eq!(waiter.finish(), 0);
    assert_eq!(waiter.events(), ["queued", "acquired", "started", "released", "exited"]);
}

#[test]
fn event_busy_has_the_holder() {
    let store = Store::new();
    let _holder = store.hold("a");
    let owner = store.inspect("a")["holders"][0]["owner"].clone();
    let all = stderr(&store.output(&["run", "a", "-n", "--json", "--", "true"]));
    assert_eq!(event_names(&all), ["busy", "exited"]);
    let [busy, exited] = &events(&all)[..] else { panic!("{all}") };
    assert_eq!(keys(busy), ["event", "holder", "lock", "time", "waited_ms"]);
    assert_eq!(busy["holder"], owner);
    assert_eq!((&exited["code"], &exited["cause"]), (&75.into(), &"busy".into()));
}

#[test]
fn events_renewal_failed_and_recovered_report_an_outage() {
    let store = Store::new();
    // A renewal is due at 2 s and is reported to hang 1 s later; TERM would come at 5.5 s.
    let mut run = store.start(&["run", "a", "--json", "-t", "6s", "-k", "500ms", "--", "cat"]);
    run.event("started");
    let outage = store.outage();
    let failed = run.event("renewal_failed");
    drop(outage);
    assert_eq!(keys(&failed), ["error", "event", "lock", "remaining_ms", "time"]);
    assert_eq!(failed["error"], "unavailable");
    let remaining = failed["remaining_ms"].as_u64().unwrap();
    assert!(remaining > 0 && remaining < 6000, "{remaining}");
    let recovered = run.event("recovered");
    assert_eq!(keys(&recovered), ["event", "lock", "time"]);
    assert_eq!(run.finish(), 0);
    let mut events = run.events();
    events.dedup();
    assert_eq!(
        events,
        ["acquired", "started", "renewal_failed", "recovered", "released", "exited"]
    );
}

#[test]
fn event_exited_distinguishes_causes() {
    let store = Store::new();
    let cause = |args: &[&str]| {
        let output = store.output(&[&["run", "a", "--json", "--"], args].concat());
        let last = events(&stderr(&output)).pop().unwrap();
        let code = code_of(output.status);
        assert_eq!(last["code"], code);
        (code, last["cause"].as_str().unwrap().to_owned())
    };
    assert_eq!(cause(&["sh", "-c", "exit 75"]), (75, "child".into()));
    assert_eq!(cause(&["sh", "-c", "kill -TERM $$"]), (143, "signal".into()));
    assert_eq!(cause(&["no-such-command"]), (127, "error".into()));
    let output =
        program().args(["-S", "memory:", "run", "a", "--json", "--", "true"]).output().unwrap();
    assert_eq!(events(&stderr(&output)).pop().unwrap()["code"], 78);
}

#[test]
fn events_are_for_json_only() {
    let store = Store::new();
    assert_eq!(stderr(&store.output(&["run", "a", "--", "true"])), "");
}

#[test]
fn event_lost_has_the_reason_and_the_signal_and_exited_its_cause() {
    let ends = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    for reason in ["expired", "broken", "max_hold"] {
        let store = Store::new();
        let limit: &[&str] = if reason == "max_hold" { &["--max-hold", "1s"] } else { &[] };
        let ttl = if reason == "expired" { "3s" } else { "12s" };
        let mut run = store.start(&sh(&[&["run", "a", "--json", "-t", ttl], limit].concat(), ends));
        let token = run.event("acquired")["token"].as_str().unwrap().parse().unwrap();
        assert_eq!(run.line(), "ready");
        let outage = (reason == "expired").then(|| store.outage());
        if reason == "broken" {
            store.break_lock("a", token, Evict::Mark);
        }
        let lost = run.event("lost");
        let more: &[&str] = if reason == "broken" { &["by", "why"] } else { &[] };
        let mut expected = [&["event", "lock", "reason", "signal", "time"], more].concat();
        expected.sort_unstable();
        assert_eq!(keys(&lost), expected);
        assert_eq!(
            (&lost["reason"], &lost["signal"], &lost["lock"]),
            (&reason.into(), &"TERM".into(), &"a".into())
        );
        drop(outage);
        assert_eq!(run.finish(), 79, "{reason}");
        let exited = run.event("exited");
        assert_eq!((&exited["code"], &exited["cause"]), (&79.into(), &"lost".into()), "{reason}");
    }
}

#[test]
fn event_released_has_the_length_of_the_hold() {
    let store = Store::new();
    let all = stderr(&store.output(&["run", "a", "--json", "--", "sleep", "0.3"]));
    let released = events(&all).into_iter().find(|event| event["event"] == "released").unwrap();
    assert!(released["held_ms"].as_u64().unwrap() >= 300, "{all}");
}
