//! The output of each command with `--json`, and its page in the documents.

use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::schema::{ALL, check};
use crate::support::{Store, events, stderr, stdout};

/// All lines on stdout, of which there is at least one.
fn lines(schema: &str, output: &Output) -> Vec<Value> {
    let lines: Vec<Value> =
        stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty(), "{schema}: {output:?}");
    lines.iter().for_each(|line| check(schema, line));
    lines
}

#[test]
fn all_that_is_printed_as_json_is_what_the_schemas_say() {
    let store = Store::new();
    let answer =
        |schema, args: &[&str]| lines(schema, &store.output(&[args, &["--json"]].concat()));
    answer("leader", &["leader", "e"]);
    answer("request", &["request", "a"]);
    let mut holder =
        store.start(&["run", "a", "--json", "-t", "3s", "--reason", "a test", "--", "cat"]);
    let sequencer = holder.event("acquired")["sequencer"].as_str().unwrap().to_owned();
    holder.event("started");
    let _permits = store.start(&["run", "p", "--permits", "2/3", "--", "cat"]);
    let _waiter = store.queue(&["run", "a", "--shared", "--", "true"], "a", 0);
    store.inspect_until("p", |lock| lock["state"] == "held");
    let held = answer("lock", &["inspect", "a"]);
    assert_eq!(answer("lock", &["list"]).len(), 2);
    assert!(!held[0].to_string().contains("4294967295"), "{}", held[0]);
    answer("request", &["request", "a", "--reason", "a hot fix"]);
    holder.event("release_requested");
    answer("check", &["check", &sequencer]);
    let token = held[0]["holders"][0]["token"].as_str().unwrap();
    answer("broken", &["break", "a", "--token", token, "--reason", "stuck", "--yes"]);
    holder.event("lost");
    assert_eq!(holder.finish(), 79);
    holder.events();
    answer("check", &["check", &sequencer]);
}

#[test]
fn handles_figures_and_findings_are_what_the_schemas_say() {
    let store = Store::new();
    let answer =
        |schema, args: &[&str]| lines(schema, &store.output(&[args, &["--json"]].concat()));
    answer("acquired", &["acquire", "b", "--handle-file", "h"]);
    assert_eq!(
        events(&stderr(&store.output(&["run", "b", "-n", "--json", "--", "true"]))).len(),
        2
    );
    answer("renewed", &["renew", "--handle-file", "h"]);
    answer("released", &["release", "--handle-file", "h"]);
    answer("acquired", &["acquire", "b", "--shared", "--handle-file", "h"]);
    answer(
        "broken",
        &["break", "b", "--id", id(&store, "b").as_str(), "--reason", "stuck", "--yes", "--now"],
    );
    answer("renewed", &["renew", "--handle-file", "h"]);
    answer("released", &["release", "--handle-file", "h"]);
    answer("finding", &["doctor"]);
    answer("bench", &["bench", "--seconds", "1", "--tasks", "2"]);
    answer("bench", &["bench", "--seconds", "100ms", "--tasks", "1", "--hold", "1m"]);
}

fn id(store: &Store, name: &str) -> String {
    store.inspect(name)["holders"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn elections_and_watches_are_what_the_schemas_say() {
    let store = Store::new();
    let mut watch = store.start(&["watch", "e", "--json"]);
    let mut leader = store.start(&["elect", "e", "--json", "--value", "10.0.0.7", "--", "cat"]);
    leader.event("started");
    lines("leader", &store.output(&["leader", "e", "--json"]));
    let _candidate = store.queue(&["elect", "e", "--", "cat"], "e", 0);
    let printed: Vec<Value> =
        (0..2).map(|_| serde_json::from_str(&watch.line()).unwrap()).collect();
    printed.iter().for_each(|change| check("change", change));
    assert_eq!(leader.finish(), 0);
    assert!(leader.events().ends_with(&["released".to_owned(), "exited".to_owned()]));
    watch.signal(Signal::TERM);
    assert_eq!(watch.finish(), 0);
    watch.lines().iter().for_each(|line| check("change", &serde_json::from_str(line).unwrap()));
    let lost = store.output(&[
        "run",
        "f",
        "--json",
        "--max-hold",
        "100ms",
        "-k",
        "100ms",
        "--",
        "sleep",
        "60",
    ]);
    assert!(events(&stderr(&lost)).iter().any(|event| event["event"] == "lost"), "{lost:?}");
}

/// The names of all properties, at any depth.
fn fields(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(parts) => {
            for (key, part) in parts {
                if key == "properties" {
                    found.extend(part.as_object().unwrap().keys().cloned());
                }
                fields(part, found);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, found)),
        _ => {}
    }
}

#[test]
fn the_page_on_json_names_every_field_of_the_schemas() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (name, text) in ALL {
        assert!(page.contains(&format!("(schema/{name}.json)")), "{name}");
        let mut found = Vec::new();
        fields(&serde_json::from_str(text).unwrap(), &mut found);
        for field in found {
            let is_named = [format!("`{field}`"), format!(".{field}`")]
                .iter()
                .any(|named| page.contains(named));
            assert!(is_named, "{name}: {field}");
        }
    }
}
