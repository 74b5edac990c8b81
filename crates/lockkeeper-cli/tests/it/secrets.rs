//! The sources of secrets; no secret is ever shown. `cargo xtask test` searches the output of all
//! tests for the password of these tests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Store, events, program, stderr, stdout};

const SECRET: &str = "hunter2";
const VARIABLE: &str = "LOCKKEEPER_PASSWORD";
const OF_FILE: &str = "LOCKKEEPER_PASSWORD_FILE";

/// The output, checked for the password, and printed so that `cargo xtask test` can check it too.
fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let shown = format!("{}{}", stdout(&output), stderr(&output));
    assert!(!shown.contains(SECRET), "a secret is shown by {:?}", command.get_args());
    println!("{shown}");
    output
}

/// The name of a file with the secret.
fn secret_file(store: &Store) -> String {
    let path = store.path("secret");
    fs::write(&path, format!("{SECRET}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn no_command_shows_a_secret() {
    let store = Store::new();
    let file = secret_file(&store);
    let _holder = store.hold("held");
    let commands = [
        &["run", "a", "--", "true"][..],
        &["run", "a", "--", "no-such-command"],
        &["run", "held", "-n", "--", "true"],
        &["inspect", "held"],
        &["list"],
        &["doctor"],
    ];
    for command in commands {
        for loud in [&["-vv"][..], &["--json"], &["-vv", "--json"]] {
            for (name, value) in [(VARIABLE, SECRET), (OF_FILE, &file)] {
                let args = [loud, command].concat();
                let with_file = output(store.command(&args).env(name, value));
                assert_ne!(with_file.status.code(), Some(78), "{args:?}: {}", stderr(&with_file));
                // A store that this version does not have.
                let without =
                    output(program().args(["-S", "mysql://me@h:1"]).args(&args).env(name, value));
                let expected = match command {
                    ["doctor"] => 1,
                    [.., "no-such-command"] => 127,
                    _ => 78,
                };
                assert_eq!(without.status.code(), Some(expected), "{args:?}: {}", stderr(&without));
            }
        }
    }
}

#[test]
fn an_error_shows_stars_where_the_secret_was() {
    let list = |url: &str| {
        let failed = output(program().args(["-vv", "list"]).env("LOCKKEEPER_STORE", url));
        assert_eq!(failed.status.code(), Some(78), "{url}");
        stderr(&failed)
    };
    for url in [
        "mysql://me:hunter2@h",
        "ectd://me:hunter2@h",
        "mysql://me:hunter2",
        "mysql://me:hunter2@h?ttl=x",
        "postgres://h/db?sentinel-password=hunter2",
        "file:/nowhere/x?password=hunter2",
        "hunter2:x@h",
    ] {
        list(url);
    }
    let printed = list("mysql://me:hunter2@h");
    assert!(
        printed.contains("mysql://me:***@h: this version of lockkeeper does not have"),
        "{printed}"
    );
}

#[test]
fn a_secret_on_the_command_line_is_refused_without_being_shown() {
    for url in ["mysql://me:hunter2@h", "mysql://:hunter2@h", "mysql://h?sentinel-password=hunter2"]
    {
        for args in [["-S", url, "list"], ["list", "--store", url]] {
            let failed = output(program().args(args));
            assert_eq!(failed.status.code(), Some(64), "{args:?}");
            assert!(stderr(&failed).contains("LOCKKEEPER_PASSWORD_FILE"), "{}", stderr(&failed));
        }
    }
    for args in [
        ["mysql://me:hunter2@h", "list"],
        ["list", "mysql://me:hunter2@h/%zz"],
        ["--password=hunter2", "list"],
    ] {
        output(program().args(args));
    }
}

#[test]
fn a_secret_in_two_places_is_refused() {
    let store = Store::new();
    let file = secret_file(&store);
    let failed = output(store.command(&["list"]).env(VARIABLE, SECRET).env(OF_FILE, &file));
    assert_eq!(failed.status.code(), Some(78));
    assert_eq!(
        stderr(&failed),
        format!("lockkeeper: {VARIABLE} and {OF_FILE} are both set. Try: one of them\n")
    );
}

#[test]
fn a_variable_for_a_secret_that_is_empty_is_refused() {
    let store = Store::new();
    for name in [VARIABLE, OF_FILE] {
        let failed = output(store.command(&["list"]).env(name, ""));
        let printed = stderr(&failed);
        assert_eq!(failed.status.code(), Some(78), "{printed}");
        let expected = format!("lockkeeper: {name} is empty, as where a secret is missing. Try: ");
        assert!(
            printed.starts_with(&expected) && printed.ends_with(&format!(", or unset {name}\n")),
            "{printed}"
        );
    }
}

#[test]
fn a_secret_file_that_every_user_can_read_causes_a_warning() {
    let store = Store::new();
    let file = secret_file(&store);
    let config = store.path("c.toml");
    let text = format!(
        "default_store = \"here\"\n[stores]\nhere = {{ url = \"{}\", password_file = \"secret\" }}\n",
        store.url()
    );
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let with = |mode: u32, args: &[&str], of_config: bool| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = if of_config { program() } else { store.command(&[]) };
        command.args(args).args(["run", "a", "--", "true"]);
        let listed = output(if of_config {
            command.env("LOCKKEEPER_CONFIG", config)
        } else {
            command.env(OF_FILE, &file)
        });
        assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
        stderr(&listed)
    };
    for (of_config, what) in [(false, OF_FILE), (true, "password_file")] {
        let printed = with(0o644, &[], of_config);
        let expected = format!(
            "{what}: {file} can be read by every user of this machine. Try: chmod 600 {file}\n"
        );
        assert!(
            printed.starts_with("lockkeeper: ")
                && printed.ends_with(&expected)
                && printed.lines().count() == 1,
            "{printed}"
        );
        assert_eq!(with(0o644, &["-q"], of_config), "");
        // A service gets a secret through its group.
        for mode in [0o600, 0o400, 0o640] {
            assert_eq!(with(mode, &[], of_config), "", "{mode:o}");
        }
        // With --json all lines are JSON.
        let printed = with(0o644, &["--json"], of_config);
        assert_eq!(events(&printed).len(), printed.lines().count(), "{printed}");
        assert_eq!(events(&printed)[0]["event"], "notice", "{printed}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_variable() {
    let store = Store::new();
    let failed = output(store.command(&["list"]).env(OF_FILE, "/nowhere/secret"));
    assert_eq!(failed.status.code(), Some(78));
    let printed = stderr(&failed);
    assert!(
        printed.starts_with(&format!("lockkeeper: {OF_FILE}: /nowhere/secret cannot be read: ")),
        "{printed}"
    );
    assert!(printed.lines().count() == 1 && printed.contains("Try: "), "{printed}");
}

#[test]
fn the_configuration_may_name_a_file_or_keep_the_secret_to_itself() {
    let store = Store::new();
    secret_file(&store);
    let path = store.path("config.toml");
    let list = |text: &str, mode: u32| {
        fs::write(
            &path,
            format!("[stores]\nprod = {{ {text} }}\nhere = {{ url = \"{}\" }}\n", store.url()),
        )
        .unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let failed =
            output(program().args(["-S", "prod", "-vv", "list"]).env("LOCKKEEPER_CONFIG", &path));
        assert_eq!(failed.status.code(), Some(78));
        stderr(&failed)
    };
    let not_there = "does not have the store of mysql:// yet";
    for (text, mode) in [
        ("url = \"mysql://me@h\", password_file = \"secret\"", 0o644),
        ("url = \"mysql://me@h\", password = \"hunter2\"", 0o600),
        ("url = \"mysql://me:hunter2@h\"", 0o600),
    ] {
        let printed = list(text, mode);
        assert!(printed.contains(not_there), "{printed}");
    }
    for text in ["url = \"mysql://me@h\", password = \"hunter2\"", "url = \"mysql://me:hunter2@h\""]
    {
        let printed = list(text, 0o644);
        assert!(printed.contains("others can read it. Try: chmod 600 "), "{printed}");
    }
    let printed = list("url = \"mysql://me@h\", password_file = \"missing\"", 0o644);
    let missing = store.path("missing");
    let expected = format!(
        "lockkeeper: {}:2: password_file: {} cannot be read: ",
        path.display(),
        missing.display()
    );
    assert!(printed.starts_with(&expected), "{printed}");
    let printed = list("url = \"mysql://me@h\", password = [\"hunter2\"]", 0o600);
    assert!(printed.contains(":2: password is not a text"), "{printed}");
}

fn environment(command: &mut Command) -> BTreeMap<String, String> {
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    stdout(&done)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

#[test]
fn pass_credentials_or_they_do_not_reach_the_command() {
    let store = Store::new();
    let file = secret_file(&store);
    let with_secrets = |name: &str, value: &str, args: &[&str]| {
        let mut command = store.command(args);
        command.env(name, value).env("LOCKKEEPER_STORE", "mysql://:hunter2@h").env("OTHER", "x");
        environment(&mut command)
    };
    for (name, value) in [(VARIABLE, SECRET), (OF_FILE, file.as_str())] {
        let env = with_secrets(name, value, &["run", "a", "--", "env"]);
        assert!(!env.values().any(|found| found.contains(value) || found.contains(SECRET)));
        assert_eq!((env["OTHER"].as_str(), env["LOCKKEEPER_REQUIRE_STORE"].as_str()), ("x", "1"));
        let env = with_secrets(name, value, &["run", "a", "--pass-credentials", "--", "env"]);
        assert_eq!(env[name], value);
        // Inside, the flag takes precedence over the variable too.
        assert_eq!(env["LOCKKEEPER_STORE"], store.url());
        assert!(!env.contains_key("LOCKKEEPER_REQUIRE_STORE"));
    }
}

#[test]
fn a_command_without_the_password_of_its_run_names_the_option() {
    // What the command of a run gets whose LOCKKEEPER_STORE has a password.
    let inner = |variables: &[(&str, &str)]| {
        let mut command = program();
        command.args(["inspect", "a"]).envs(variables.iter().copied());
        let failed = output(&mut command);
        assert_eq!(failed.status.code(), Some(78), "{failed:?}");
        stderr(&failed)
    };
    let required = ("LOCKKEEPER_REQUIRE_STORE", "1");
    let printed = inner(&[("LOCKKEEPER_RUN_ID", "0011223344556677"), required]);
    assert!(
        printed.contains("run around this command keeps a URL with a password to itself")
            && printed
                .ends_with("Try: run --pass-credentials, or the store in the configuration\n"),
        "{printed}"
    );
    let printed = inner(&[required]);
    assert!(printed.contains("LOCKKEEPER_REQUIRE_STORE forbids the default"), "{printed}");
}

/// No store asks for a token.
#[test]
fn a_token_of_another_program_is_no_secret_of_ours() {
    let store = Store::new();
    let manual = stdout(&program().arg("man").output().unwrap());
    assert!(
        manual.contains("LOCKKEEPER_PASSWORD") && !manual.to_lowercase().contains("api_token"),
        "{manual}"
    );
    let mut command = store.command(&["run", "a", "--", "env"]);
    command.env("LOCKKEEPER_API_TOKEN", "x").env("LOCKKEEPER_API_TOKEN_FILE", "/nowhere/token");
    assert_eq!(environment(&mut command)["LOCKKEEPER_API_TOKEN"], "x");
    let config = store.path("token.toml");
    fs::write(&config, format!("stores.a = {{ url = \"{}\", api_token = \"x\" }}\n", store.url()))
        .unwrap();
    let failed = output(program().args(["-S", "a", "list"]).env("LOCKKEEPER_CONFIG", &config));
    assert!(
        failed.status.code() == Some(78) && stderr(&failed).contains("unknown key \"api_token\""),
        "{failed:?}"
    );
}

#[test]
fn a_nested_run_has_the_same_store_and_never_another() {
    let store = Store::new();
    let inner = "cd /; lockkeeper check \"$LOCKKEEPER_SEQUENCER\" && lockkeeper run -n a -- true";
    let folder = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_str().unwrap();
    // Named by a relative path, and by a flag that replaces a variable with a password.
    let mut command = program();
    command.args(["-S", "file:./locks.db", "--prefix", "p/", "run", "a", "--", "sh", "-c", inner]);
    command.current_dir(store.path("")).env("LOCKKEEPER_STORE", "mysql://:hunter2@h");
    let nested =
        output(command.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", store.path("")));
    assert_eq!(stdout(&nested), "valid\n", "{}", stderr(&nested));
    assert_eq!(nested.status.code(), Some(75), "{}", stderr(&nested));
}
