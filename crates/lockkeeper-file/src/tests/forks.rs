//! Children that are forked from a process that has, or had, the store open.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;
use crate::opened::OpenConnection;

const ROLE: &str = "LOCKKEEPER_TEST_FORK_ROLE";
const PATH: &str = "LOCKKEEPER_TEST_PATH";

/// Preloaded, this library turns a question for the parent's process into a fork, and the parent
/// waits for the child. A child that hangs is ended.
const FORK: &str = "#define _GNU_SOURCE
                    #include <sched.h>
                    #include <signal.h>
                    #include <stdlib.h>
                    #include <sys/syscall.h>
                    #include <sys/wait.h>
                    #include <unistd.h>
                    pid_t getppid(void) {
                        pid_t child = getenv(\"LOCKKEEPER_TEST_NEWPID\")
                            ? (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0)
                            : fork();
                        if (child == 0) alarm(20);
                        if (child > 0) waitpid(child, 0, 0);
                        return child;
                    }";

/// Not a test: a process that opens the store, and forks a child that opens it too.
#[test]
fn forking() {
    let (Ok(role), Some(path)) = (std::env::var(ROLE), std::env::var_os(PATH)) else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (path, mine) = (PathBuf::from(path), runtime());
    let store = mine.block_on(FileStore::new(&path).open()).unwrap();
    assert_eq!(OpenConnection::count(&path), 2, "one connection to write, and one to read");
    let (mut opens, mut kept, mut locked) = (path.clone(), None, None);
    match &*role {
        "close" => drop(store),
        "opening" => {
            opens.set_file_name("other.db");
            locked = Some(OpenConnection::lock_all());
            kept = Some(store);
        }
        _ => kept = Some(store),
    }
    if std::os::unix::process::parent_id() == 0 {
        let checked = kept.as_ref().map(|store| store.check_process().map_err(|e| e.kind()));
        match runtime().block_on(FileStore::new(&opens).open()) {
            Ok(_) => println!("\nchild: opened"),
            Err(error) => println!("\nchild: {checked:?}, {:?}, {error}", error.kind()),
        }
        std::process::exit(0);
    }
    drop(locked);
}

/// The report of the child.
fn said(machine: &Machine, role: &str) -> String {
    let (source, library) = (machine.0.path().join("fork.c"), machine.0.path().join("fork.so"));
    fs::write(&source, FORK).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let mut parent = Command::new(if role == "namespace" { "unshare" } else { "env" });
    if role == "namespace" {
        parent.args(["--pid", "--fork", "env", "LOCKKEEPER_TEST_NEWPID=1"]);
    }
    let mut parent = parent
        .arg(format!("LD_PRELOAD={}", library.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tests::forks::forking", "--nocapture"])
        .env(ROLE, role)
        .env(PATH, machine.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(|line| line.ok());
    let said = lines.filter(|line| line.starts_with("child: ")).last();
    parent.wait().unwrap();
    said.expect("a report of the child")
}

/// SQLite would take no lock for the child's connections. When the parent closes the file, the log
/// would be deleted below the child, with the locks that the child holds.
#[test]
fn a_child_does_not_open_what_its_parent_has_open() {
    let machine = Machine::new();
    let said = said(&machine, "keep");
    assert!(said.contains("Forked") && said.contains("forked from"), "{said}");
    assert!(said.contains("Try: open it in the children alone"), "{said}");
}

/// As a server that does its start-up work under a lock, and forks its workers then.
#[test]
fn a_child_opens_what_its_parent_has_closed() {
    let machine = Machine::new();
    assert_eq!(said(&machine, "close"), "child: opened");
}

/// The child inherits the locked list, and not the thread that would unlock it.
#[test]
fn a_child_forked_while_a_thread_opens_a_file_does_not_hang() {
    let said = said(&Machine::new(), "opening");
    assert!(said.contains("Forked"), "{said}");
}

/// The first process of a container forks a sandbox with process ids of its own: both have id 1.
#[test]
fn a_child_with_the_id_of_its_parent_does_not_open_what_its_parent_has_open() {
    let is_allowed = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return left_out("only root makes a namespace of processes, with unshare");
    }
    let said = said(&Machine::new(), "namespace");
    assert!(said.starts_with("child: Some(Err(Forked)), Forked,"), "{said}");
}

/// The drop does not wait for the end of a process that is stopped inside the gate.
#[tokio::test]
async fn a_drop_at_a_shut_gate_ends_before_the_gate_is_open() {
    let machine = Machine::new();
    let store = machine.open().await;
    let gate = File::open(files::suffixed(&machine.path(), ".gate")).unwrap();
    gate.lock().unwrap();
    drop(store);
    assert!(OpenConnection::count(&machine.path()) > 0, "the connection of the writer");
    gate.unlock().unwrap();
    while OpenConnection::count(&machine.path()) > 0 {
        tokio::task::yield_now().await;
    }
}

/// A process that closes the file does not decide whether it is the last one: the log stays, and
/// goes on at its beginning when it has 1000 pages.
#[tokio::test]
async fn the_last_process_that_closes_the_file_leaves_the_log() {
    let machine = Machine::new();
    let log = files::suffixed(&machine.path(), "-wal");
    let client = machine.client().await;
    let token = client.granted(&client.mutex("n")).await;
    let before = fs::metadata(&log).unwrap().len();
    drop(client);
    while OpenConnection::count(&machine.path()) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fs::metadata(&log).unwrap().len(), before);
    let client = machine.client().await;
    for _ in 0..600 {
        let claim = client.mutex("n");
        assert!(client.granted(&claim).await > token);
        client.withdraw(&claim).await;
    }
    let after = fs::metadata(&log).unwrap().len();
    assert!(after < 5 << 20, "{after}");
}
