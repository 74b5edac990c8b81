//! The key of a lock has foreign data.

use std::process::Output;

use lockkeeper_live::Redis;
use serde_json::Value;

use crate::support::{Process, Store, stderr, stdout};

/// The foreign value of the key, by its description in a message.
const STRAYS: [(&str, &[u8]); 4] = [
    ("a string of 7 bytes", b"garbage"),
    ("a string of 8 bytes", b"12345678"),
    ("a string of 100 bytes", &[b'x'; 100]),
    // The string ends like the value of an exclusive lock.
    ("a string of 90 bytes", &[b'\x11'; 90]),
];

fn put(server: &Redis, key: &str, value: &[u8]) {
    let _: redis::Value =
        redis::cmd("SET").arg(key).arg(value).query(&mut server.connect().unwrap()).unwrap();
}

fn put_a_list(server: &Redis, key: &str) {
    server.run(&["DEL", key]).unwrap();
    server.run(&["RPUSH", key, "x"]).unwrap();
}

/// One line with the lock, the key, its contents and the remedy.
fn names_the_key(printed: &str, name: &str, what: &str) {
    let key =
        format!("the key lk:{{{name}}} holds something that lockkeeper has not written: {what}");
    for piece in [&format!("lock {name:?}"), &key, &format!("Try: redis-cli TYPE 'lk:{{{name}}}'")]
    {
        assert!(printed.contains(piece.as_str()), "{piece:?} is missing: {printed}");
    }
}

fn is_refused(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    names_the_key(&stderr(output), "stray", what);
}

#[test]
fn a_foreign_value_is_named_by_its_key_and_hides_no_other_lock() {
    let store = Store::new();
    let mut holder = store.hold("good");
    let strays = STRAYS
        .map(|(what, value)| (what, Some(value)))
        .into_iter()
        .chain([("a value that is no string", None)]);
    for (what, value) in strays {
        store.with_server(|server| match value {
            Some(value) => put(server, "lk:{stray}", value),
            None => put_a_list(server, "lk:{stray}"),
        });
        let listed = store.output(&["list"]);
        assert!(listed.status.success() && stdout(&listed).contains("good"), "{listed:?}");
        names_the_key(&stderr(&listed), "stray", what);
        let machine = store.output(&["list", "--json"]);
        let lines: Vec<Value> =
            stdout(&machine).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let states: Vec<_> = lines.iter().map(|line| (&line["lock"], &line["state"])).collect();
        assert_eq!(
            states,
            [(&"good".into(), &"held".into()), (&"stray".into(), &"unreadable".into())]
        );
        names_the_key(lines[1]["problem"].as_str().unwrap(), "stray", what);
        let examined = store.output(&["doctor", "--json", "--connect-timeout", "60s"]);
        let keys =
            stdout(&examined).lines().find(|line| line.contains("\"keys\"")).unwrap().to_owned();
        assert!(examined.status.success() && keys.contains("\"warn\""), "{examined:?}");
        assert!(
            keys.contains(what)
                && keys.contains("lk:{stray} holds")
                && keys.contains("redis-cli TYPE"),
            "{keys}"
        );
        is_refused(&store.output(&["inspect", "stray"]), what);
        is_refused(&store.output(&["run", "-n", "stray", "--", "true"]), what);
    }
    assert_eq!(holder.finish(), 0);
}

#[test]
fn watching_all_locks_reports_an_unreadable_one_once_and_shows_the_others() {
    let store = Store::new();
    store.with_server(|server| put_a_list(server, "lk:{stray}"));
    let watching = store.start(&["watch", "--json", "*"]);
    names_the_key(&watching.error_line(), "stray", "a value that is no string");
    let mut holder = store.hold("good");
    let seen: Value = serde_json::from_str(&watching.line()).unwrap();
    assert_eq!((&seen["event"], &seen["lock"]), (&"held".into(), &"good".into()));
    assert_eq!(holder.finish(), 0);
}

/// Up to the line that has this.
fn line_with(process: &Process, piece: &str) -> String {
    loop {
        let line = process.error_line();
        if line.contains(piece) {
            return line;
        }
    }
}

/// Another client overwrites the key of a held lock, alone and beside another lock of the same
/// client.
#[test]
fn a_holder_whose_lock_was_overwritten_learns_by_what_and_where() {
    for beside in [&[][..], &["beside"]] {
        let store = Store::new();
        // Renewed after 6 s for the first time.
        let args = [&["run", "--ttl", "18s", "stray"], beside, &["--", "cat"]].concat();
        let mut holder = store.start(&args);
        store.inspect_until("stray", |lock| lock["state"] == "held");
        store.with_server(|server| put(server, "lk:{stray}", b"garbage"));
        names_the_key(&line_with(&holder, "a renewal failed"), "stray", "a string of 7 bytes");
        is_refused(&store.output(&["run", "-n", "stray", "--", "true"]), "a string of 7 bytes");
        holder.close_stdin();
        names_the_key(
            &line_with(&holder, "the release is not confirmed"),
            "stray",
            "a string of 7 bytes",
        );
        assert_eq!(holder.finish(), 0);
    }
}

/// The lock itself is held: a user who deletes its key lets a second holder in.
#[test]
fn advice_about_a_foreign_side_key_does_not_delete_the_lock() {
    let store = Store::new();
    let mut holder = store.hold("good");
    store.with_server(|server| put(server, "lk:{good}:q", b"garbage"));
    let output = store.output(&["run", "-w", "10s", "good", "--", "true"]);
    let printed = stderr(&output);
    assert!(
        !output.status.success() && printed.contains("lk:{good}:q") && !printed.contains("DEL"),
        "{output:?}"
    );
    assert_eq!(store.inspect("good")["state"], "held");
    store.with_server(|server| server.run(&["DEL", "lk:{good}:q"]).unwrap());
    assert_eq!(holder.finish(), 0);
}

/// Each failed renewal names the problem of its own lock.
#[test]
fn two_locks_that_were_overwritten_are_reported_each_by_its_own_key() {
    let store = Store::new();
    let mut holder = store.start(&["run", "--ttl", "18s", "one", "two", "--", "cat"]);
    for (name, what) in [("one", "garbage"), ("two", "other garbage")] {
        store.inspect_until(name, |lock| lock["state"] == "held");
        store.with_server(|server| put(server, &format!("lk:{{{name}}}"), what.as_bytes()));
    }
    let mut printed =
        [line_with(&holder, "a renewal failed"), line_with(&holder, "a renewal failed")];
    printed.sort();
    names_the_key(&printed[0], "one", "a string of 7 bytes");
    names_the_key(&printed[1], "two", "a string of 13 bytes");
    holder.close_stdin();
    assert_eq!(holder.finish(), 0);
}
