//! Settings that come with the URL of the store, and a store that is not there.

use crate::support::{Store, events, program, stderr, stdout};

#[test]
fn the_url_sets_what_no_flag_sets() {
    let store = Store::new();
    let url = format!("{}?ttl=7s&prefix=url/", store.url());
    let acquired = |args: &[&str]| {
        let output =
            program().args(["-S", &url, "run", "a", "--json"]).args(args).args(["--", "true"]).output().unwrap();
        events(&stderr(&output)).into_iter().find(|event| event["event"] == "acquired").unwrap()
    };
    let event = acquired(&[]);
    assert_eq!(event["ttl_ms"], 7000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".url%2Fa"));
    let event = acquired(&["-t", "9s", "--prefix", "flag/"]);
    assert_eq!(event["ttl_ms"], 9000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".flag%2Fa"));
}

/// A path that was mistyped is told, and nothing is put there.
#[test]
fn who_only_looks_makes_no_store() {
    let store = Store::new();
    let nobody = "NAME  MODE  HOLDERS  WAITING  OLDEST  HELD  OWNER\n";
    for (args, code, answer) in [
        (&["list"][..], 0, nobody),
        (&["inspect", "a"], 1, "lock   a\nstate  free\n"),
        (&["leader", "a"], 1, ""),
        (&["check", "lk1.x.5.a"], 1, "stale\n"),
        (&["break", "a", "--token", "5", "--reason", "gone", "--yes"], 1, ""),
    ] {
        let output = store.output(args);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), answer), "{args:?}");
        let told = format!("lockkeeper: {} is not there yet, so nobody holds a lock in it. Try: ", store.url());
        assert!(stderr(&output).starts_with(&told), "{args:?}: {}", stderr(&output));
        assert_eq!(std::fs::read_dir(store.path("")).unwrap().count(), 0, "{args:?}");
    }
    let output = store.output(&["-q", "inspect", "a"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
}
