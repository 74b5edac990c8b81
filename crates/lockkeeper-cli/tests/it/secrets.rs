//! Where secrets come from, and that none of them is ever shown. The password of these tests is one that the task which
//! runs all tests looks for in everything that they print.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Store, program, stderr, stdout};

const SECRET: &str = "hunter2";
const VARIABLES: [&str; 2] = ["LOCKKEEPER_PASSWORD", "LOCKKEEPER_API_TOKEN"];

/// The output, looked through and printed, so that whoever collects the output of tests can look too.
fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let shown = format!("{}{}", stdout(&output), stderr(&output));
    assert!(!shown.contains(SECRET), "a secret is shown by {:?}", command.get_args());
    println!("{shown}");
    output
}

/// A file with the secret, and its name.
fn secret_file(store: &Store) -> String {
    let path = store.path("secret");
    fs::write(&path, format!("{SECRET}\n")).unwrap();
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
            for (name, value) in VARIABLES
                .iter()
                .flat_map(|name| [((*name).to_owned(), SECRET.to_owned()), (format!("{name}_FILE"), file.clone())])
            {
                let args = [loud, command].concat();
                let with_file = output(store.command(&args).env(&name, &value));
                assert_ne!(with_file.status.code(), Some(78), "{args:?}: {}", stderr(&with_file));
                // A store that this version does not have.
                let without = output(program().args(["-S", "mysql://me@h:1"]).args(&args).env(&name, &value));
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
    let told = list("mysql://me:hunter2@h");
    assert!(told.contains("mysql://me:***@h: this version of lockkeeper does not have"), "{told}");
}

#[test]
fn a_secret_on_the_command_line_is_refused_without_being_shown() {
    for url in ["mysql://me:hunter2@h", "mysql://:hunter2@h", "mysql://h?sentinel-password=hunter2"] {
        for args in [["-S", url, "list"], ["list", "--store", url]] {
            let failed = output(program().args(args));
            assert_eq!(failed.status.code(), Some(64), "{args:?}");
            assert!(stderr(&failed).contains("LOCKKEEPER_PASSWORD_FILE"), "{}", stderr(&failed));
        }
    }
    for args in [["mysql://me:hunter2@h", "list"], ["list", "mysql://me:hunter2@h/%zz"], ["--password=hunter2", "list"]]
    {
        output(program().args(args));
    }
}

#[test]
fn a_secret_in_two_places_is_refused() {
    let store = Store::new();
    let file = secret_file(&store);
    for name in VARIABLES {
        let of_file = format!("{name}_FILE");
        let failed = output(store.command(&["list"]).env(name, SECRET).env(&of_file, &file));
        assert_eq!(failed.status.code(), Some(78));
        assert_eq!(stderr(&failed), format!("lockkeeper: {name} and {of_file} are both set. Try: one of them\n"));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_variable() {
    let store = Store::new();
    for name in VARIABLES {
        let of_file = format!("{name}_FILE");
        let failed = output(store.command(&["list"]).env(&of_file, "/nowhere/secret"));
        assert_eq!(failed.status.code(), Some(78));
        let told = stderr(&failed);
        assert!(told.starts_with(&format!("lockkeeper: {of_file}: /nowhere/secret cannot be read: ")), "{told}");
        assert!(told.lines().count() == 1 && told.contains("Try: "), "{told}");
    }
}

#[test]
fn the_configuration_may_name_a_file_or_keep_the_secret_to_itself() {
    let store = Store::new();
    secret_file(&store);
    let path = store.path("config.toml");
    let list = |text: &str, mode: u32| {
        fs::write(&path, format!("[stores]\nprod = {{ {text} }}\nhere = {{ url = \"{}\" }}\n", store.url())).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let failed = output(program().args(["-S", "prod", "-vv", "list"]).env("LOCKKEEPER_CONFIG", &path));
        assert_eq!(failed.status.code(), Some(78));
        stderr(&failed)
    };
    let not_there = "does not have the store of mysql:// yet";
    for (text, mode) in [
        ("url = \"mysql://me@h\", password_file = \"secret\"", 0o644),
        ("url = \"mysql://me@h\", password = \"hunter2\"", 0o600),
        ("url = \"mysql://me:hunter2@h\"", 0o600),
    ] {
        let told = list(text, mode);
        assert!(told.contains(not_there), "{told}");
    }
    for text in ["url = \"mysql://me@h\", password = \"hunter2\"", "url = \"mysql://me:hunter2@h\""] {
        let told = list(text, 0o644);
        assert!(told.contains("others can read it. Try: chmod 600 "), "{told}");
    }
    let told = list("url = \"mysql://me@h\", password_file = \"missing\"", 0o644);
    let missing = store.path("missing");
    let expected = format!("lockkeeper: {}:2: password_file: {} cannot be read: ", path.display(), missing.display());
    assert!(told.starts_with(&expected), "{told}");
    let told = list("url = \"mysql://me@h\", password = [\"hunter2\"]", 0o600);
    assert!(told.contains(":2: password is not a text"), "{told}");
}

fn environment(command: &mut Command) -> BTreeMap<String, String> {
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    stdout(&done).lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
}

#[test]
fn pass_credentials_or_they_do_not_reach_the_command() {
    let store = Store::new();
    let file = secret_file(&store);
    let with_secrets = |suffix: &str, value: &str, args: &[&str]| {
        let mut command = store.command(args);
        command.envs(VARIABLES.map(|name| (format!("{name}{suffix}"), value)));
        command.env("LOCKKEEPER_STORE", "mysql://:hunter2@h").env("OTHER", "x");
        environment(&mut command)
    };
    for (suffix, value) in [("", SECRET), ("_FILE", file.as_str())] {
        let env = with_secrets(suffix, value, &["run", "a", "--", "env"]);
        assert!(!env.values().any(|found| found.contains(value) || found.contains(SECRET)));
        assert_eq!((env["OTHER"].as_str(), env["LOCKKEEPER_REQUIRE_STORE"].as_str()), ("x", "1"));
        let env = with_secrets(suffix, value, &["run", "a", "--pass-credentials", "--", "env"]);
        assert!(VARIABLES.iter().all(|name| env[&format!("{name}{suffix}")] == value));
        // The flag stands before the variable inside, too.
        assert_eq!(env["LOCKKEEPER_STORE"], store.url());
        assert!(!env.contains_key("LOCKKEEPER_REQUIRE_STORE"));
    }
}

#[test]
fn a_run_inside_a_run_has_the_same_store_and_never_falls_back_to_another() {
    let store = Store::new();
    let inner = "cd /; lockkeeper check \"$LOCKKEEPER_SEQUENCER\" && lockkeeper run -n a -- true";
    let folder = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_str().unwrap();
    // Named by a relative path, and by a flag that replaces a variable with a password.
    let mut command = program();
    command.args(["-S", "file:./locks.db", "--prefix", "p/", "run", "a", "--", "sh", "-c", inner]);
    command.current_dir(store.path("")).env("LOCKKEEPER_STORE", "mysql://:hunter2@h");
    let nested = output(command.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", store.path("")));
    assert_eq!(stdout(&nested), "valid\n", "{}", stderr(&nested));
    assert_eq!(nested.status.code(), Some(75), "{}", stderr(&nested));
}
