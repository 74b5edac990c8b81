//! The configuration file: which file counts, its precedence, and the errors of a wrong file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Store, events, program, stderr};

/// Writes a configuration beside the store.
fn config(store: &Store, name: &str, text: &str) -> PathBuf {
    let path = store.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// `lockkeeper ARGS` with this configuration in the variable.
fn with(config: &Path, args: &[&str]) -> Command {
    let mut command = program();
    command.env("LOCKKEEPER_CONFIG", config).args(args);
    command
}

fn acquired(command: &mut Command) -> serde_json::Value {
    let output = command.output().unwrap();
    let event = events(&stderr(&output)).into_iter().find(|event| event["event"] == "acquired");
    event.unwrap_or_else(|| panic!("{output:?}"))
}

/// Exit code 78, and one line.
fn refused(output: &Output) -> String {
    let printed = stderr(output);
    assert_eq!(output.status.code(), Some(78), "{printed}");
    assert!(
        printed.starts_with("lockkeeper: ")
            && printed.lines().count() == 1
            && printed.contains("Try: "),
        "{printed}"
    );
    printed
}

const RUN: [&str; 5] = ["run", "a", "--json", "--", "true"];

#[test]
fn a_store_is_chosen_by_its_name_or_by_default() {
    let (one, two) = (Store::new(), Store::new());
    let text = format!(
        "default_store = \"one\"\n[stores]\none = {{ url = \"{}\", prefix = \"one/\", ttl = \"20s\" }}\n\
         two = {{ url = \"{}?ttl=7s&prefix=url/\", prefix = \"two/\", ttl = 9 }}\n",
        one.url(),
        two.url()
    );
    let path = config(&one, "config.toml", &text);
    let event = acquired(&mut with(&path, &RUN));
    assert!(event["sequencer"].as_str().unwrap().ends_with(".one%2Fa"), "{event}");
    assert_eq!(event["ttl_ms"], 20_000);
    assert!(one.database().exists() && !two.database().exists());
    for choose in [&["-S", "two"][..], &["--store", "two"], &[]] {
        let mut command = with(&path, &[choose, &RUN].concat());
        if choose.is_empty() {
            command.env("LOCKKEEPER_STORE", "two");
        }
        let event = acquired(&mut command);
        assert!(event["sequencer"].as_str().unwrap().ends_with(".url%2Fa"), "{event}");
        assert_eq!(event["ttl_ms"], 7000);
    }
    assert!(two.database().exists());
    let event = acquired(with(&path, &RUN).env("LOCKKEEPER_PREFIX", "env/"));
    assert!(event["sequencer"].as_str().unwrap().ends_with(".env%2Fa"), "{event}");
    let event = acquired(with(&path, &RUN).env("LOCKKEEPER_STORE", two.url()));
    assert_eq!(event["ttl_ms"], 30_000);
}

#[test]
fn the_owner_of_the_configuration_is_shown() {
    let store = Store::new();
    let path = config(&store, "config.toml", "owner = \"of-config\"");
    let hold = ["run", "a", "--json", "--", "cat"];
    let mut holder =
        crate::support::Process::start(store.command(&hold).env("LOCKKEEPER_CONFIG", &path));
    holder.event("started");
    assert_eq!(store.inspect("a")["holders"][0]["owner"], "of-config");
    assert_eq!(holder.finish(), 0);
}

#[test]
fn the_flag_precedes_the_variable_and_that_the_usual_places() {
    let store = Store::new();
    let of = |name: &str| {
        format!(
            "default_store = \"s\"\nstores.s = {{ url = \"{}\", prefix = \"{name}/\" }}",
            store.url()
        )
    };
    let flag = config(&store, "flag.toml", &of("flag"));
    let variable = config(&store, "variable.toml", &of("variable"));
    config(&store, "xdg/lockkeeper/config.toml", &of("xdg"));
    config(&store, "home/.config/lockkeeper/config.toml", &of("home"));
    let prefix = |command: &mut Command| {
        let event = acquired(command.env("HOME", store.path("home")));
        event["sequencer"]
            .as_str()
            .unwrap()
            .rsplit('.')
            .next()
            .unwrap()
            .trim_end_matches("%2Fa")
            .to_owned()
    };
    let xdg = store.path("xdg");
    let flag = flag.to_str().unwrap();
    assert_eq!(
        prefix(with(&variable, &["--config", flag]).args(RUN).env("XDG_CONFIG_HOME", &xdg)),
        "flag"
    );
    assert_eq!(
        prefix(
            with(&variable, &["run", "--config", flag, "a", "--json", "--", "true"])
                .env("XDG_CONFIG_HOME", &xdg)
        ),
        "flag"
    );
    assert_eq!(prefix(with(&variable, &RUN).env("XDG_CONFIG_HOME", &xdg)), "variable");
    assert_eq!(prefix(with(Path::new(""), &RUN).env("XDG_CONFIG_HOME", &xdg)), "xdg");
    assert_eq!(prefix(with(Path::new(""), &RUN).env_remove("XDG_CONFIG_HOME")), "home");
    assert_eq!(prefix(with(Path::new(""), &RUN).env("XDG_CONFIG_HOME", "relative")), "home");
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
    let store = Store::new();
    let path = config(
        &store,
        "config.toml",
        "[stores]\n\nprod = { url = \"file:/x\", pasword_file = \"y\" }\n",
    );
    for command in [&["list"][..], &["inspect", "a"], &["run", "a", "--", "true"]] {
        let printed = refused(&with(&path, command).output().unwrap());
        let expected = format!(
            "lockkeeper: {}:3: unknown key \"pasword_file\". Try: password_file\n",
            path.display()
        );
        assert_eq!(printed, expected);
    }
    let path = config(&store, "config.toml", "default_stroe = \"prod\"");
    let printed = refused(&with(&path, &["list"]).output().unwrap());
    assert!(
        printed.ends_with(":1: unknown key \"default_stroe\". Try: default_store\n"),
        "{printed}"
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let store = Store::new();
    let path = config(&store, "config.toml", "owner = \"me\"\nstores = {\n");
    let output = with(&path, &["list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let printed = stderr(&output);
    assert!(
        printed.starts_with(&format!("lockkeeper: {}:", path.display()))
            && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let store = Store::new();
    let printed = refused(&store.output(&["--config", "/nowhere/config.toml", "list"]));
    assert!(
        printed.starts_with("lockkeeper: --config: /nowhere/config.toml cannot be read: "),
        "{printed}"
    );
    let printed = refused(
        &store
            .command(&["list"])
            .env("LOCKKEEPER_CONFIG", "/nowhere/config.toml")
            .output()
            .unwrap(),
    );
    assert!(
        printed.starts_with("lockkeeper: LOCKKEEPER_CONFIG: /nowhere/config.toml cannot be read: "),
        "{printed}"
    );
    refused(&store.output(&["--config", store.path("").to_str().unwrap(), "list"]));
}

#[test]
fn a_usual_file_may_be_absent_but_not_unreadable() {
    let store = Store::new();
    let list = |home: &str| {
        let url = store.url();
        let mut command = store.as_user(&["list", "-S", &url]);
        command
            .env_remove("LOCKKEEPER_CONFIG")
            .env("XDG_CONFIG_HOME", store.path(home))
            .output()
            .unwrap()
    };
    // The folder of the store belongs to another user, which is a different error.
    assert!(!stderr(&list("absent")).contains("the configuration"));
    let path = config(&store, "closed/lockkeeper/config.toml", "");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let printed = refused(&list("closed"));
    assert!(
        printed.contains(path.to_str().unwrap()) && printed.contains("Permission denied"),
        "{printed}"
    );
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    let store = Store::new();
    let path = config(&store, "config.toml", "[stores]\nprod = { url = \"file:/x\" }\n");
    let printed = refused(&with(&path, &["-S", "prdo", "list"]).output().unwrap());
    assert_eq!(
        printed,
        format!("lockkeeper: --store: {} has no store \"prdo\". Try: prod\n", path.display())
    );
    let printed =
        refused(&with(&path, &["list"]).env("LOCKKEEPER_STORE", "other").output().unwrap());
    assert!(
        printed.contains("LOCKKEEPER_STORE: ") && printed.ends_with("Try: one of prod, or a URL\n"),
        "{printed}"
    );
}

#[test]
fn a_redlock_of_nodes_is_refused_only_when_it_is_meant() {
    let store = Store::new();
    let text = format!(
        "[stores]\nquorum = {{ nodes = [\"rediss://a:6379\", \"redis://b:6379\", \"rediss://c:6380\"] }}\n\
         here = {{ url = \"{}\" }}",
        store.url()
    );
    let path = config(&store, "config.toml", &text);
    let printed = refused(&with(&path, &["-S", "quorum", "list"]).output().unwrap());
    assert!(printed.contains(":2: a Redlock has one URL, and not a list of nodes"), "{printed}");
    assert_eq!(with(&path, &["-S", "here", "list"]).output().unwrap().status.code(), Some(0));
}

#[test]
fn a_required_store_is_a_matter_of_the_configuration_too() {
    let store = Store::new();
    let path = config(&store, "config.toml", "require_store = true");
    let printed = refused(&with(&path, &["run", "a", "--", "true"]).output().unwrap());
    assert!(
        printed.contains("require_store of ") && printed.contains("Try: --store URL"),
        "{printed}"
    );
    let url = store.url();
    assert_eq!(with(&path, &["-S", &url]).args(RUN).output().unwrap().status.code(), Some(0));
}

#[test]
fn a_default_store_replaces_the_file_of_the_host_in_silence() {
    let store = Store::new();
    let path = config(&store, "config.toml", &format!("default_store = \"{}\"", store.url()));
    let output = with(&path, &["run", "a", "--", "true"]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(store.database().exists());
}

#[test]
fn the_nearest_name_is_reported_for_urls_too() {
    for (url, near) in [
        ("file:/x?max-waitesr=3", "Try: max-waiters="),
        ("flie:/x", "Try: file:"),
        ("redsi://h", "Try: redis://"),
        ("file:/x?unsafe=network-sf", "Try: unsafe=network-fs"),
    ] {
        let printed = refused(&program().args(["-S", url, "list"]).output().unwrap());
        assert!(printed.trim_end().ends_with(near), "{url}: {printed}");
    }
}
