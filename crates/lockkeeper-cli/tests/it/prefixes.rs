//! Names with a prefix: a printed name can be typed.

use serde_json::Value;

use crate::support::{Client, Process, event_names, stderr, stdout};

/// A store with the locks of other users, and the source of the prefix: an option, or the URL.
fn stores() -> [(Client, &'static [&'static str]); 2] {
    [("", &["--prefix", "p/"][..]), ("?prefix=p/", &[])].map(|(params, flags)| {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file:{}{params}", dir.path().join("locks.db").display());
        (Client::new(&url, dir), flags)
    })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A holder of the lock `n` with the prefix, and its token.
fn hold(store: &Client, flags: &[&str]) -> (Process, String) {
    let mut holder =
        store.start(&[flags, &["run", "n", "-t", "12s", "--json", "--", "cat"]].concat());
    let acquired = holder.event("acquired");
    holder.event("started");
    assert_eq!(acquired["lock"], "n");
    assert!(acquired["sequencer"].as_str().unwrap().ends_with(".p%2Fn"), "{acquired}");
    (holder, acquired["token"].as_str().unwrap().to_owned())
}

#[test]
fn what_list_prints_can_be_inspected_and_broken() {
    for (store, flags) in stores() {
        // Names outside of the prefix, and the prefix itself.
        let others = ["p", "p/", "q/n"].map(|name| {
            let mut other = store.start(&["--prefix", "", "run", name, "--json", "--", "cat"]);
            other.event("started");
            other
        });
        let (mut holder, token) = hold(&store, flags);
        let with = |args: &[&str]| store.output(&[flags, args].concat());
        let listed = json(&stdout(&with(&["list", "--json"])));
        let shown = listed["lock"].as_str().unwrap();
        let inspected = with(&["inspect", shown, "--json"]);
        assert_eq!(
            (inspected.status.code(), json(&stdout(&inspected))["lock"].as_str()),
            (Some(0), Some(shown))
        );
        let table = stdout(&with(&["list"]));
        assert_eq!(table.lines().nth(1).unwrap().split_whitespace().next(), Some(shown), "{table}");
        let broken =
            with(&["break", shown, "--token", &token, "--reason", "stuck", "--yes", "--json"]);
        assert_eq!(broken.status.code(), Some(0), "{}", stderr(&broken));
        assert_eq!(json(&stdout(&broken))["lock"], shown);
        assert_eq!(holder.event("lost")["lock"], shown);
        assert_eq!(holder.finish(), 79);
        for mut other in others {
            assert_eq!(other.finish(), 0);
        }
    }
}

#[test]
fn what_watch_leader_and_errors_print_can_be_typed() {
    for (store, flags) in stores() {
        let (mut holder, _) = hold(&store, flags);
        let with = |args: &[&str]| store.output(&[flags, args].concat());
        for subject in ["*", "n"] {
            let watch = store.start(&[flags, &["watch", subject, "--json"]].concat());
            let printed = json(&watch.line());
            assert_eq!((&printed["event"], &printed["lock"]), (&"held".into(), &"n".into()));
            watch.signal(rustix::process::Signal::TERM);
        }
        assert_eq!(json(&stdout(&with(&["leader", "n", "--json"])))["lock"], "n");
        let busy = with(&["run", "n", "-n", "--", "true"]);
        assert!(
            stderr(&busy).contains("lock \"n\"") && !stderr(&busy).contains("p/n"),
            "{}",
            stderr(&busy)
        );
        // The store itself refuses this attempt, and names the lock.
        let refused = with(&["run", "n", "--permits", "1/2", "--", "true"]);
        assert_eq!(refused.status.code(), Some(78));
        assert!(
            stderr(&refused).contains("lock \"n\"") && !stderr(&refused).contains("p/n"),
            "{}",
            stderr(&refused)
        );
        assert_eq!(holder.finish(), 0);
        assert!(event_names(&holder.rest()).iter().all(|name| name != "lost"));
    }
}

/// A handle has the full name, and works for every process that has it.
#[test]
fn a_handle_is_shown_by_the_name_that_can_be_typed_here() {
    for (store, flags) in stores() {
        let with = |flags: &[&str], args: &[&str]| store.output(&[flags, args].concat());
        let lock = |output| json(&stdout(&output))["lock"].clone();
        assert_eq!(lock(with(flags, &["acquire", "n", "--handle-file", "h", "--json"])), "n");
        assert_eq!(lock(with(flags, &["renew", "--handle-file", "h", "--json"])), "n");
        assert_eq!(
            lock(with(&["--prefix", ""], &["renew", "--handle-file", "h", "--json"])),
            "p/n"
        );
        assert_eq!(
            lock(with(&["--prefix", "q/"], &["renew", "--handle-file", "h", "--json"])),
            "p/n"
        );
        assert_eq!(with(flags, &["inspect", "n"]).status.code(), Some(0));
        assert_eq!(lock(with(flags, &["release", "--handle-file", "h", "--json"])), "n");
        assert_eq!(with(flags, &["inspect", "n"]).status.code(), Some(1));
    }
}

#[test]
fn break_of_a_name_with_the_prefix_explains_the_prefix() {
    for (store, flags) in stores() {
        let (_holder, token) = hold(&store, flags);
        let broken = |name: &str, token: &str| {
            let args = ["break", name, "--token", token, "--reason", "stuck", "--yes"];
            let output = store.output(&[flags, &args].concat());
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            stderr(&output)
        };
        let printed = broken("p/n", &token);
        let expected = format!(
            "lockkeeper: lock \"p/n\": nobody holds it with the token {token}; lockkeeper puts the prefix \"p/\" before \
             this name, and looked for \"p/p/n\". Try: the name \"n\", or lockkeeper inspect n\n"
        );
        assert_eq!(printed, expected);
        for name in ["n", "p/"] {
            let printed = broken(name, "7");
            let expected = format!(
                "lockkeeper: lock {name:?}: nobody holds it with the token 7. Try: lockkeeper inspect {name}\n"
            );
            assert_eq!(printed, expected);
        }
    }
}
