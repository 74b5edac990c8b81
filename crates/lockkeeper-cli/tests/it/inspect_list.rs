//! `inspect` and `list`.

use serde_json::{Value, json};

use crate::support::{Store, Terminal, binary, stderr, stdout};

#[test]
fn inspect_shows_a_free_lock() {
    let store = Store::new();
    let free = json!({"lock": "a", "state": "free", "mode": null, "capacity": null, "holders": [], "waiters": [],
        "last_token": null});
    assert_eq!(store.inspect("a"), free);
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let lock = store.inspect("a");
    assert_eq!(lock["state"], "free");
    assert!(lock["last_token"].as_str().unwrap().parse::<u64>().is_ok());
    assert!(
        stdout(&store.output(&["inspect", "a"])).starts_with("lock        a\nstate       free\n")
    );
}

#[test]
fn inspect_shows_holders_and_waiters() {
    let store = Store::new();
    let mut holder = store
        .start(&["run", "a", "--json", "--owner", "me@here", "--reason", "a test", "--", "cat"]);
    let token = holder.event("acquired")["token"].clone();
    let _waiter =
        store.queue(&["--owner", "you", "run", "a", "--reason", "a wish", "--", "true"], "a", 0);
    let lock = store.inspect("a");
    assert_eq!((&lock["state"], &lock["mode"]), (&json!("held"), &json!("exclusive")));
    assert_eq!(lock["capacity"], Value::Null);
    let first = &lock["holders"][0];
    let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 11, "{keys:?}");
    assert_eq!((&first["owner"], &first["reason"]), (&json!("me@here"), &json!("a test")));
    assert_eq!(first["token"], token);
    assert!(first["held_ms"].is_u64() && first["expires_in_ms"].is_u64(), "{first}");
    let waiter = &lock["waiters"][0];
    for claim in [first, waiter] {
        assert!(claim["id"].as_str().is_some_and(|id| id.len() == 16), "{claim}");
    }
    assert_ne!(first["id"], waiter["id"]);
    assert_eq!((&waiter["owner"], &waiter["reason"]), (&json!("you"), &json!("a wish")));
    assert_eq!(first["broken"], Value::Null);
    assert!(waiter["waited_ms"].is_u64());
    assert_eq!(waiter.as_object().unwrap().len(), 7);
    for claim in [first, waiter] {
        assert_eq!((&claim["mode"], &claim["permits"]), (&json!("exclusive"), &Value::Null));
    }
    assert_eq!((&first["capacity"], &waiter["capacity"]), (&Value::Null, &Value::Null));
    let output = store.output(&["inspect", "a"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for part in ["held", "exclusive", "me@here", "a test", "you", token.as_str().unwrap()] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn list_shows_what_is_used() {
    let store = Store::new();
    assert_eq!(
        stdout(&store.output(&["list"])),
        "NAME  MODE  HOLDERS  WAITING  OLDEST  HELD  OWNER\n"
    );
    assert_eq!(stdout(&store.output(&["list", "--json"])), "");
    let _holders: Vec<_> = ["b/2", "a", "b/1"].map(|name| store.hold(name)).into();
    let names = |args: &[&str]| -> Vec<String> {
        let output = store.output(&[&["list", "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let lines = stdout(&output);
        lines
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["lock"].as_str().unwrap().into()
            })
            .collect()
    };
    assert_eq!(names(&[]), ["a", "b/1", "b/2"]);
    assert_eq!(names(&["b/"]), ["b/1", "b/2"]);
    assert_eq!(names(&["--limit", "2"]), ["a", "b/1"]);
    assert_eq!(names(&["c"]), Vec::<String>::new());
    let text = stdout(&store.output(&["list"]));
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.lines().nth(1).unwrap().starts_with("a     exclusive  1        0        -"),
        "{text}"
    );
}

#[test]
fn the_help_of_list_explains_its_columns() {
    let help = stdout(&Store::new().output(&["list", "--help", "--all"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "OLDEST is how long the first of the waiters has waited.",
        "HELD is how long the lock has been held; of several holders, OWNER is the one that has held it longest.",
    ] {
        assert!(words.contains(sentence), "{sentence:?} is missing: {help}");
    }
}

#[test]
fn what_strangers_write_cannot_forge_lines() {
    let store = Store::new();
    let mut holder = store.start(&[
        "run",
        "a",
        "--json",
        "--owner",
        "x\ny",
        "--reason",
        "\u{1b}[2J",
        "--",
        "cat",
    ]);
    // The library may refuse such an owner; an accepted owner is shown escaped.
    if holder.wait_for_start() {
        let text = stdout(&store.output(&["inspect", "a"]));
        assert!(!text.contains('\u{1b}') && !text.contains("\ny"), "{text}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_bug() {
    let store = Store::new();
    let shell = format!("{} list -S {} | true; echo done", binary().display(), store.url());
    let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert_eq!(stdout(&output), "done\n");
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn list_says_when_there_are_more_than_it_lists() {
    let store = Store::new();
    let _holders: Vec<_> = ["a", "b", "c"].map(|name| store.hold(name)).into();
    for args in [&["list", "--limit", "2"][..], &["list", "--limit", "2", "--json"]] {
        let printed = stderr(&store.output(args));
        assert!(
            printed.starts_with("lockkeeper: only the first 2 are listed")
                && printed.contains("--limit"),
            "{printed}"
        );
    }
    for args in [&["list", "--limit", "3"][..], &["list"], &["-q", "list", "--limit", "1"]] {
        assert_eq!(stderr(&store.output(args)), "", "{args:?}");
    }
}

#[test]
fn a_long_name_is_not_cut() {
    let store = Store::new();
    let long = "x".repeat(255);
    let _holders = [long.as_str(), "a"].map(|name| store.hold(name));
    let text = stdout(&store.output(&["list"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with(&format!("{long}  exclusive")), "{text}");
    assert_eq!(lines[1].find("exclusive"), lines[2].find("exclusive"), "{text}");
    assert!(stdout(&store.output(&["inspect", &long])).contains(&long));
}

#[test]
fn no_color_and_a_dumb_terminal_and_a_pipe_get_no_colours() {
    let store = Store::new();
    let _holder = store.hold("a");
    let list = |set: &[(&str, &str)]| {
        let (mut command, terminal) = (store.command(&["list"]), Terminal::new());
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(set.iter().copied());
        let status = command.stdout(terminal.side()).spawn().unwrap().wait().unwrap();
        assert!(status.success());
        drop(command);
        terminal.screen()
    };
    assert!(list(&[]).contains("\u{1b}[1mNAME\u{1b}[0m"), "{:?}", list(&[]));
    assert!(list(&[("NO_COLOR", "")]).contains('\u{1b}'));
    for set in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!list(&[set]).contains('\u{1b}'), "{set:?}");
    }
    assert!(
        !stdout(&store.command(&["list"]).env("TERM", "xterm").output().unwrap())
            .contains('\u{1b}')
    );
}

#[test]
fn exit_74_is_an_answer_that_cannot_be_written() {
    let store = Store::new();
    let _holder = store.hold("a");
    for args in [
        &["list"][..],
        &["inspect", "a"],
        &["leader", "a"],
        &["check", "lk1.x.7.a"],
        &["watch", "a"],
        &["--help"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = store.command(args);
        let output = command
            .stdout(full)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(74), "{args:?}: {printed}");
        assert!(
            printed.starts_with(
                "lockkeeper: the answer could not be written to stdout: No space left"
            ),
            "{printed}"
        );
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
}
