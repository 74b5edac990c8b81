//! The program on a Redlock.

use lockkeeper_live::{Redlock, redis};

use crate::cli_doctor::{PATIENTLY, Report};
use crate::support::{program, stderr, stdout};

fn doctor(url: &str, options: &[&str]) -> Report {
    let mut command = program();
    command.args(["-S", url, "doctor", "--json"]).args(options).args(PATIENTLY);
    Report::of(&command.output().unwrap())
}

#[test]
fn new_servers_count_after_doctor_init_and_run_has_its_lock() {
    let servers = Redlock::start().unwrap();
    for node in servers.nodes() {
        node.run(&["DEL", "lk:born"]).unwrap();
    }
    let url = servers.url() + "?node-timeout=1s";
    let before = doctor(&url, &[]);
    assert_eq!((before.code, before.line("memory of locks")[0]), (Some(1), "warn"));
    assert!(before.line("memory of locks")[2].contains("doctor --init"));
    let after = doctor(&url, &["--init"]);
    assert_eq!((after.code, after.failed()), (Some(0), vec![]), "{:#?}", after.lines);
    assert_eq!(after.line("init"), ["ok", "all 3 servers count now", ""]);
    assert_eq!(after.line("memory of locks")[0], "ok");
    let ran = program()
        .args(["-S", &url, "run", "a", "--", "sh", "-c", "echo $LOCKKEEPER_FENCING_TOKEN"])
        .output()
        .unwrap();
    assert!(stdout(&ran).trim().parse::<u64>().is_ok_and(|token| token > 0), "{ran:?}");
}

#[test]
fn two_servers_are_a_wrong_setting() {
    for url in ["redlock://a,b", "redlock://a"] {
        let output = program().args(["-S", url, "run", "x", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(stderr(&output).contains("3 are needed"), "{output:?}");
    }
}

#[test]
fn a_store_without_an_initialization_says_so() {
    let url = redis().unwrap().url();
    let output = program().args(["-S", &url, "doctor", "--init"]).output().unwrap();
    assert!(stderr(&output).contains("Redis needs no initialization"), "{output:?}");
}
