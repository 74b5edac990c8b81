//! The environment of the command.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Store, os, script, stderr, stdout};

fn environment(command: &mut Command) -> BTreeMap<String, String> {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

#[test]
fn environment_of_the_command_names_its_lock() {
    let store = Store::new();
    let mut command = store.command(&["run", "deploy/web", "--", "env"]);
    let env =
        environment(command.env("LOCKKEEPER_LOCK", "other").env("LOCKKEEPER_MODE", "permits"));
    let token = &env["LOCKKEEPER_FENCING_TOKEN"];
    assert!(token.parse::<u64>().unwrap() > 0);
    assert_eq!(env["LOCKKEEPER_LOCK"], "deploy/web");
    assert_eq!(env["LOCKKEEPER_LOCKS"], "deploy/web");
    assert_eq!(env["LOCKKEEPER_MODE"], "exclusive");
    assert_eq!(env["LOCKKEEPER_SEQUENCER"], format!("lk1.x.{token}.deploy%2Fweb"));
    assert_eq!(env["LOCKKEEPER_SEQUENCERS"], env["LOCKKEEPER_SEQUENCER"]);
}

#[test]
fn a_store_without_a_password_is_handed_on() {
    let store = Store::new();
    let mut command = crate::support::program();
    let env =
        environment(command.args(["run", "a", "--", "env"]).env("LOCKKEEPER_STORE", store.url()));
    assert_eq!(env["LOCKKEEPER_STORE"], store.url());
}

#[test]
fn the_flag_precedes_the_environment() {
    let store = Store::new();
    let mut command = store.command(&["run", "x", "--prefix", "flag/", "--", "env"]);
    let env =
        environment(command.env("LOCKKEEPER_STORE", "nonsense").env("LOCKKEEPER_PREFIX", "env/"));
    assert!(env["LOCKKEEPER_SEQUENCER"].ends_with(".flag%2Fx"), "{env:?}");
    let mut command = store.command(&["run", "x", "--", "env"]);
    let env = environment(command.env("LOCKKEEPER_PREFIX", "env/"));
    assert!(env["LOCKKEEPER_SEQUENCER"].ends_with(".env%2Fx"), "{env:?}");
}

#[test]
fn only_the_three_standard_files_are_inherited_from_us() {
    let store = Store::new();
    let list = ["ls", "/proc/self/fd"];
    let bare =
        Command::new(list[0]).args(&list[1..]).stdin(std::process::Stdio::null()).output().unwrap();
    let under_lock = store.output(&[&["run", "a", "--"], &list[..]].concat());
    assert_eq!(stdout(&under_lock), stdout(&bare));
}

#[test]
fn the_command_is_found_in_path_and_keeps_its_name() {
    let store = Store::new();
    let bin = store.path("bin");
    std::fs::create_dir(&bin).unwrap();
    script(&bin.join("tool"), "#!/bin/sh\necho tool \"$@\"\n");
    let output =
        store.command(&["run", "a", "--", "tool", "x y"]).env("PATH", &bin).output().unwrap();
    assert_eq!(stdout(&output), "tool x y\n", "{}", stderr(&output));
    let output = store.output(&["run", "a", "--", "sh", "-c", "cat /proc/$$/cmdline"]);
    assert!(stdout(&output).starts_with("sh\0-c\0"));
}

#[test]
fn the_default_store_is_reported_once() {
    // Run as a user, since root's default is a file of this machine.
    let store = Store::new();
    let home = store.path("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = |args: &[&str]| store.as_user(args).env("HOME", &home).output().unwrap();
    let output = run(&["run", "a", "--", "true"]);
    let notice = format!(
        "lockkeeper: no store configured; this lock holds on this host only (file:{}/.local/state/lockkeeper/locks.db)\n",
        home.display()
    );
    // In a container, the message says so.
    let printed = stderr(&output).replace("in this container only", "on this host only");
    assert_eq!((output.status.code(), printed), (Some(0), notice));
    assert_eq!(stderr(&run(&["-q", "run", "a", "--", "true"])), "");
    assert_eq!(run(&["inspect", "-q", "a"]).status.code(), Some(1));
}

#[test]
fn require_store_refuses_the_file_of_this_host() {
    let store = Store::new();
    let mut command = crate::support::program();
    let output = command
        .args(["run", "a", "--", "true"])
        .env("LOCKKEEPER_REQUIRE_STORE", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78));
    let mut command = store.command(&["run", "a", "--", "true"]);
    assert_eq!(
        command.env("LOCKKEEPER_REQUIRE_STORE", os("1")).output().unwrap().status.code(),
        Some(0)
    );
}
