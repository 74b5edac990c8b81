//! A test process leaves nothing behind, in whatever way it ends.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_live::{Program, Redis, lockkeeper_binary, redis};

const STARTER: &str = "LOCKKEEPER_LIVE_STARTER";

#[test]
fn a_starter_starts_servers_and_ends_as_it_is_ordered() {
    if std::env::var(STARTER).is_ok() {
        return start_servers();
    }
    for end in ["return", "exit", "abort", "panic"] {
        let (mut starter, servers) = starter();
        writeln!(starter.stdin.take().unwrap(), "{end}").unwrap();
        starter.wait().unwrap();
        gone(&servers);
    }
}

#[test]
fn a_test_process_that_is_killed_leaves_nothing_running() {
    let (mut starter, servers) = starter();
    starter.kill().unwrap();
    starter.wait().unwrap();
    gone(&servers);
}

#[test]
fn a_server_that_is_dropped_is_gone_with_its_data() {
    let redis = Redis::start().unwrap();
    let (pid, folder) = (redis.pid(), folder_of(&redis));
    drop(redis);
    assert!(!Path::new(&folder).exists() && !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_missing_program_is_an_error_with_the_command_that_installs_it() {
    let program =
        Program { binary: "no-such-server", packages: "a-server a-client", variable: None };
    let error = program.find().unwrap_err().to_string();
    assert!(error.ends_with("apt-get install a-server a-client"), "{error}");
}

#[test]
fn a_variable_names_another_program_and_must_not_name_nothing() {
    let shell = Program {
        binary: "sh",
        packages: "dash",
        variable: Some("LOCKKEEPER_LIVE_NO_SUCH_VARIABLE"),
    };
    assert!(shell.find().unwrap().ends_with("sh"));
    let named = Program { variable: Some("PATH"), ..shell };
    assert!(named.find().unwrap_err().to_string().starts_with("PATH names /"));
}

#[test]
fn the_program_that_was_built_with_the_tests_is_found() {
    let version = Command::new(lockkeeper_binary().unwrap()).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("lockkeeper "));
}

/// A test process with a shared server, a server of one test, and a stopped server. Returns the
/// process, and what must be gone after it.
fn starter() -> (Child, Vec<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "ends::a_starter_starts_servers_and_ends_as_it_is_ordered",
            "--nocapture",
        ])
        .env(STARTER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.split_once('@').map(|(_, servers)| servers.to_owned()));
    let servers: Vec<String> = line.unwrap().split(' ').map(str::to_owned).collect();
    assert_eq!(servers.len(), 6);
    assert!(servers.iter().all(|path| Path::new(path).exists()), "{servers:?}");
    (child, servers)
}

fn start_servers() {
    let (own, mut stopped) = (Redis::start().unwrap(), Redis::start().unwrap());
    let servers = [redis().unwrap(), &own, &stopped];
    let paths: Vec<_> = servers
        .iter()
        .flat_map(|redis| [format!("/proc/{}", redis.pid()), folder_of(redis)])
        .collect();
    stopped.pause().unwrap();
    std::io::stdout().write_all(format!("@{}\n", paths.join(" ")).as_bytes()).unwrap();
    let end = std::io::stdin().lines().next();
    match end.map(Result::unwrap).as_deref() {
        Some("return") => {}
        Some("abort") => std::process::abort(),
        Some("panic") => panic!("as it was told"),
        _ => std::process::exit(0),
    }
}

fn folder_of(redis: &Redis) -> String {
    redis.query::<(String, String)>(&["CONFIG", "GET", "dir"]).unwrap().1
}

fn gone(paths: &[String]) {
    let start = Instant::now();
    while paths.iter().any(|path| is_there(path)) {
        assert!(start.elapsed() < Duration::from_secs(30), "left: {paths:?}");
        std::thread::yield_now();
    }
}

/// A process that is not reaped yet counts as gone.
fn is_there(path: &str) -> bool {
    let state = std::fs::read_to_string(format!("{path}/stat")).unwrap_or_default();
    Path::new(path).exists() && !state.contains(") Z")
}
