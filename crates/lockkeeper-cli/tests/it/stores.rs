//! Settings in the URL of the store, and a missing store.

use crate::support::{Store, events, program, stderr, stdout};

#[test]
fn the_url_sets_what_no_flag_sets() {
    let store = Store::new();
    let url = format!("{}?ttl=7s&prefix=url/", store.url());
    let acquired = |args: &[&str]| {
        let output = program()
            .args(["-S", &url, "run", "a", "--json"])
            .args(args)
            .args(["--", "true"])
            .output()
            .unwrap();
        events(&stderr(&output)).into_iter().find(|event| event["event"] == "acquired").unwrap()
    };
    let event = acquired(&[]);
    assert_eq!(event["ttl_ms"], 7000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".url%2Fa"));
    let event = acquired(&["-t", "9s", "--prefix", "flag/"]);
    assert_eq!(event["ttl_ms"], 9000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".flag%2Fa"));
}

/// The program without a configured store, and a home in memory.
fn without_store(args: &[&str], home: &tempfile::TempDir, store: &Store) -> std::process::Command {
    let mut command = store.as_user(args);
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    command.env("XDG_STATE_HOME", home.path());
    command
}

#[test]
fn a_default_store_in_memory_or_in_a_container_names_its_reach() {
    let (store, home) = (Store::new(), tempfile::tempdir_in("/dev/shm").unwrap());
    let run = |more: &[&str]| {
        let output = without_store(&[&["run", "a"], more, &["--", "true"]].concat(), &home, &store)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        stderr(&output)
    };
    let printed = run(&[]);
    let line = "no store configured; this lock holds in this container only (file:/dev/shm/";
    assert!(
        printed.starts_with(&format!("lockkeeper: {line}")) && printed.lines().count() == 1,
        "{printed}"
    );
    assert_eq!(run(&["-q"]), "");
    // With --json all lines are JSON.
    let printed = run(&["--json"]);
    assert_eq!(events(&printed).len(), printed.lines().count(), "{printed}");
    assert!(
        events(&printed)[0]["event"] == "notice"
            && events(&printed)[0]["message"].as_str().unwrap().starts_with(line)
    );
}

#[test]
fn exit_78_is_an_election_without_a_configured_store() {
    let (store, home) = (Store::new(), tempfile::tempdir_in("/dev/shm").unwrap());
    let output = without_store(&["elect", "a", "--", "true"], &home, &store).output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let printed = stderr(&output);
    assert!(
        printed.contains("no store configured; an election") && printed.contains("Try: --store"),
        "{printed}"
    );
    // The store is refused because no other client shares its locks, so no second message says
    // that.
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    let url = format!("file:{}/locks.db?unsafe=permissions", home.path().display());
    assert_eq!(
        without_store(&["-S", &url, "elect", "a", "--", "true"], &home, &store)
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
}

/// A handle, with its store.
#[test]
fn who_holds_a_handle_makes_no_store() {
    let store = Store::new();
    assert_eq!(store.code(&["acquire", "a", "--handle-file", "h"]), 0);
    let folder = store.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let mistyped = format!("file:{}/loks.db", folder.display());
    for command in ["renew", "release"] {
        let output = program()
            .args(["-S", &mistyped, command, "--handle-file"])
            .arg(store.path("h"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
        assert!(stderr(&output).contains("loks.db is not there. Try: the --store"), "{output:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{command}");
    }
}

#[test]
fn watch_makes_no_store_and_waits_for_it() {
    let store = Store::new();
    let watch = store.start(&["watch", "a", "--json"]);
    assert!(watch.error_line().contains("is not there yet"));
    assert_eq!(std::fs::read_dir(store.path("")).unwrap().count(), 0);
    let _holder = store.hold("a");
    assert!(watch.line().contains("\"event\":\"held\""));
}

/// A mistyped path is an error, and nothing is made there.
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
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(code), answer),
            "{args:?}"
        );
        let printed = format!(
            "lockkeeper: {} is not there yet, so nobody holds a lock in it. Try: ",
            store.url()
        );
        assert!(stderr(&output).starts_with(&printed), "{args:?}: {}", stderr(&output));
        assert_eq!(std::fs::read_dir(store.path("")).unwrap().count(), 0, "{args:?}");
    }
    let output = store.output(&["-q", "inspect", "a"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
}

#[test]
fn exit_78_is_a_file_store_whose_folder_is_not_there() {
    let store = Store::new();
    let deep = format!("file:{}/mistyped/app/locks.db", store.path("").display());
    let run = |args: &[&str]| {
        program().args(["-S", &deep]).args(args).current_dir(store.path("")).output().unwrap()
    };
    for args in [
        &["run", "a", "--", "true"][..],
        &["elect", "a", "--", "true"],
        &["acquire", "a", "--handle-file", "h"],
        &["bench", "--seconds", "1"],
        &["list"],
        &["inspect", "a"],
        &["leader", "a"],
        &["watch", "a"],
        &["check", "lk1.x.5.a"],
        &["break", "a", "--token", "5", "--reason", "gone", "--yes"],
        &["doctor"],
    ] {
        let output = run(args);
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{args:?}: {printed}");
        assert!(
            printed.contains("/mistyped/app does not exist. Try: ") && printed.contains("--create"),
            "{args:?}: {printed}"
        );
        assert_eq!(std::fs::read_dir(store.path("")).unwrap().count(), 0, "{args:?}");
    }
    // A command that only looks makes nothing all the same.
    assert_eq!(run(&["--create", "list"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(store.path("")).unwrap().count(), 0);
    assert_eq!(run(&["run", "a", "--create", "--", "true"]).status.code(), Some(0));
    assert_eq!(run(&["run", "a", "--", "true"]).status.code(), Some(0));
    // Beside the working directory, `--create` has nothing to make.
    let relative = program()
        .args(["-S", "file:here.db", "run", "a", "--", "true"])
        .current_dir(store.path(""))
        .output()
        .unwrap();
    assert_eq!(relative.status.code(), Some(0), "{relative:?}");
}

#[test]
fn exit_78_is_a_required_store_that_is_not_configured() {
    let (store, home) = (Store::new(), tempfile::tempdir_in("/dev/shm").unwrap());
    let config = store.path("config.toml");
    std::fs::write(&config, format!("[stores]\nprod = {{ url = \"{}\" }}\n", store.url())).unwrap();
    let refused = |command: &mut std::process::Command, says: &str| {
        let output = command.output().unwrap();
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{printed}");
        assert!(printed.contains(says) && printed.lines().count() == 1, "{printed}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    };
    for args in
        [&["run", "a", "--", "true"][..], &["elect", "a", "--", "true"], &["list"], &["doctor"]]
    {
        let mut empty = without_store(args, &home, &store);
        refused(
            empty.env("LOCKKEEPER_STORE", ""),
            "LOCKKEEPER_STORE is empty, as where a secret is missing. Try: ",
        );
        // Not even the configuration replaces it.
        let text = format!("default_store = \"{}\"", store.url());
        std::fs::write(store.path("default.toml"), text).unwrap();
        refused(
            empty.env("LOCKKEEPER_CONFIG", store.path("default.toml")),
            "LOCKKEEPER_STORE is empty",
        );
        let mut unchosen = without_store(args, &home, &store);
        let says = format!(
            "no store chosen: {} names stores, and no default_store. Try: --store prod, or default_store = \"prod\" there",
            config.display()
        );
        refused(unchosen.env("LOCKKEEPER_CONFIG", &config), &says);
    }
    // A flag is a choice.
    let mut chosen = store.command(&["run", "a", "--", "true"]);
    let chosen =
        chosen.env("LOCKKEEPER_STORE", "").env("LOCKKEEPER_CONFIG", &config).output().unwrap();
    assert_eq!((chosen.status.code(), stderr(&chosen).as_str()), (Some(0), ""));
}
