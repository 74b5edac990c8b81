//! `doctor` on the file store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::support::{Store, Terminal, eventually, program, stderr, stdout};

/// The lines of a report, by their check.
struct Report {
    code: i32,
    lines: Vec<Value>,
}

impl Report {
    fn of(output: &Output) -> Self {
        let lines =
            stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { code: output.status.code().unwrap_or_else(|| panic!("{output:?}")), lines }
    }

    fn line(&self, check: &str) -> &Value {
        self.lines
            .iter()
            .find(|line| line["check"] == check)
            .unwrap_or_else(|| panic!("{check}: {:#?}", self.lines))
    }

    fn status(&self, check: &str) -> &str {
        self.line(check)["status"].as_str().unwrap()
    }

    fn finding(&self, check: &str) -> &str {
        self.line(check)["finding"].as_str().unwrap()
    }

    fn remedy(&self, check: &str) -> &str {
        self.line(check)["remedy"].as_str().unwrap()
    }
}

fn report(store: &Store) -> Report {
    // On a busy machine the examination takes longer than most users would wait.
    Report::of(&store.output(&["doctor", "--json", "--connect-timeout", "60s"]))
}

#[test]
fn doctor_of_a_healthy_store_has_nothing_that_fails() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let report = report(&store);
    assert_eq!(report.code, 0, "{:#?}", report.lines);
    for check in
        ["store", "database", "permissions", "durability", "clock", "leftovers", "capabilities"]
    {
        assert_eq!(report.status(check), "ok", "{:#?}", report.line(check));
        assert_eq!(report.line(check).as_object().unwrap().len(), 4);
        assert_eq!(report.line(check)["remedy"], Value::Null);
    }
    // A machine of a test may be slow.
    for check in ["file system", "disk", "watches", "round trip"] {
        assert_ne!(report.status(check), "FAIL", "{:#?}", report.line(check));
    }
    assert_eq!(report.finding("durability"), "journal_mode wal, synchronous 2");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(report.finding("clock").contains(boot_id.trim()), "{}", report.finding("clock"));
    assert!(report.finding("store").ends_with("from --store"), "{}", report.finding("store"));
}

#[test]
fn doctor_has_a_line_for_each_check() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let output = store.output(&["doctor"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let text = stdout(&output);
    let begins =
        |line: &&str| ["ok ", "warn ", "FAIL "].iter().any(|status| line.starts_with(status));
    assert_eq!(text.lines().filter(begins).count(), report(&store).lines.len());
    let first = text.lines().next().unwrap();
    let (name, finding) = (first.find("configuration").unwrap(), first.rfind("  ").unwrap() + 2);
    for line in text.lines() {
        assert!(!line[finding..].starts_with(' ') && line[..finding].ends_with("  "), "{text}");
        assert!(begins(&line) != line[..finding].trim().is_empty(), "{text}");
        assert!(!begins(&line) || !line[name..].starts_with(' '), "{text}");
        assert!(line.chars().count() <= 100 || !line[finding..].contains(' '), "{text}");
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let (mut command, terminal) = (store.command(&["doctor"]), Terminal::new());
    tcsetwinsize(terminal.side(), Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 })
        .unwrap();
    let mut doctor = command.stdout(terminal.side()).spawn().unwrap();
    drop(command);
    let screen = terminal.screen();
    assert_eq!(doctor.wait().unwrap().code(), Some(0), "{screen}");
    let texts = screen.lines().map(|line| &line["ok  configuration  ".len()..]);
    for (line, text) in screen.lines().zip(texts) {
        // A word that is longer has a line of its own.
        assert!(line.chars().count() <= 60 || !text.trim().contains(' '), "{line:?} of {screen}");
    }
    let capabilities = screen.lines().skip_while(|line| !line.contains("capabilities")).count();
    assert!(capabilities > 2, "{screen}");
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let store = Store::new();
    let report = report(&store);
    assert_eq!(report.code, 0);
    assert_eq!(report.status("database"), "warn");
    assert!(report.finding("database").ends_with("is not there yet"));
    assert!(report.remedy("database").contains("the first run makes it"));
    assert_eq!(fs::read_dir(store.path("")).unwrap().count(), 0);
    let deep = format!("file:{}/a/b/locks.db", store.path("").display());
    let output = program().args(["doctor", "--create", "-S", &deep]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(fs::read_dir(store.path("")).unwrap().count(), 0);
}

#[test]
fn who_holds_and_who_waits_is_summed_up() {
    let store = Store::new();
    let _holders = ["a", "b"].map(|name| store.hold(name));
    let _waiter = store.queue(&["run", "b", "--", "true"], "b", 0);
    let report = report(&store);
    let found = report.finding("locks");
    assert!(
        found.starts_with(
            "2 in use, 2 held, 1 waiting; the longest line is that of \"b\", 1 waiting;"
        ),
        "{found}"
    );
    assert!(found.contains("the oldest hold is that of \""), "{found}");
    // The waiter watches.
    assert!(!report.finding("watches").starts_with("0 of "), "{}", report.finding("watches"));
}

#[test]
fn what_a_killed_client_left_is_counted() {
    let store = Store::new();
    let holder = store.hold("a");
    holder.signal(Signal::KILL);
    let live = store.path("locks.db.live");
    eventually("the client's end", || {
        fs::read_dir(&live).unwrap().flatten().any(|entry| {
            fs::File::open(entry.path()).is_ok_and(|file| file.try_lock_shared().is_ok())
        })
    });
    assert!(
        report(&store).finding("leftovers").starts_with("1 files of ended clients"),
        "{:#?}",
        report(&store).lines
    );
}

#[test]
fn permissions_that_are_too_wide_fail_with_the_command_that_repairs_them() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    fs::set_permissions(store.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let refused = report(&store);
    assert_eq!((refused.code, refused.status("permissions")), (1, "FAIL"));
    assert!(
        refused.remedy("permissions").starts_with("chmod go-w "),
        "{}",
        refused.remedy("permissions")
    );
    assert_eq!(refused.status("open"), "FAIL");
    let url = format!("{}?unsafe=permissions", store.url());
    let waived = Report::of(
        &program()
            .args(["doctor", "--json", "-S", &url, "--connect-timeout", "60s"])
            .output()
            .unwrap(),
    );
    assert_eq!((waived.code, waived.status("permissions")), (0, "warn"));
    assert_ne!(waived.status("round trip"), "FAIL", "{:#?}", waived.lines);
}

#[test]
fn a_file_that_is_no_database_fails_and_the_other_checks_run() {
    let store = Store::new();
    fs::write(store.database(), "not a database, but long enough to be looked at as one").unwrap();
    fs::set_permissions(store.database(), PermissionsExt::from_mode(0o600)).unwrap();
    let report = report(&store);
    assert_eq!((report.code, report.status("open")), (1, "FAIL"));
    assert!(
        report.finding("open").contains("is not a SQLite database"),
        "{}",
        report.finding("open")
    );
    assert_eq!(report.status("database"), "ok");
    assert!(report.lines.iter().any(|line| line["check"] == "disk"));
}

#[test]
fn a_file_that_this_user_may_not_use_fails() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(store.database(), PermissionsExt::from_mode(0o400)).unwrap();
    }
    let output = store.as_user(&["doctor", "--json", "-S", &store.url()]).output().unwrap();
    let report = Report::of(&output);
    assert_eq!((report.code, report.status("permissions")), (1, "FAIL"), "{:#?}", report.lines);
    assert!(
        report.finding("permissions").contains("may not be written by this user"),
        "{:#?}",
        report.lines
    );
}

#[test]
fn a_process_that_was_stopped_in_the_gate_is_named() {
    let store = Store::new();
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let gate = store.path("locks.db.gate");
    let ready = store.path("ready");
    // flock(1) holds the gate, like a process that was stopped while writing.
    let mut inside = Command::new("flock");
    let script = format!("touch {}; exec sleep 60", ready.display());
    let mut inside =
        inside.arg(&gate).args(["sh", "-c", &script]).process_group(0).spawn().unwrap();
    eventually("the gate", || ready.exists());
    let pid = Pid::from_child(&inside);
    kill_process(pid, Signal::STOP).unwrap();
    let report = report(&store);
    kill_process_group(pid, Signal::KILL).unwrap();
    inside.wait().unwrap();
    assert_eq!((report.code, report.status("gate")), (1, "FAIL"));
    assert_eq!(report.remedy("gate"), format!("kill -CONT {}", pid.as_raw_nonzero()));
    assert!(
        report.finding("gate").contains("is inside the gate and does not leave it"),
        "{}",
        report.finding("gate")
    );
}

#[test]
fn a_store_of_another_version_fails_without_its_password() {
    let output = program()
        .args(["doctor", "--json"])
        .env("LOCKKEEPER_STORE", "mysql://me:hunter2@h")
        .output()
        .unwrap();
    let report = Report::of(&output);
    assert_eq!((report.code, report.status("open")), (1, "FAIL"));
    assert_eq!(report.finding("store"), "mysql://me:***@h, from LOCKKEEPER_STORE");
    println!("{}{}", stdout(&output), stderr(&output));
    assert!(!stdout(&output).contains("hunter2") && !stderr(&output).contains("hunter2"));
}

#[test]
fn the_default_store_is_a_warning() {
    let store = Store::new();
    let home = store.path("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, PermissionsExt::from_mode(0o777)).unwrap();
    let output = store.as_user(&["doctor", "--json", "-q"]).env("HOME", &home).output().unwrap();
    let report = Report::of(&output);
    assert_eq!((report.code, report.status("store")), (0, "warn"), "{:#?}", report.lines);
    assert!(report.finding("store").contains("home/.local/state/lockkeeper/locks.db, the default"));
    assert_eq!(stderr(&output), "");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn a_long_line_widens_no_other_and_no_remedy_leads_back_here() {
    let output = program()
        .args(["-S", "redis://127.0.0.1:1", "--connect-timeout", "300ms", "doctor"])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let failed =
        text.lines().skip_while(|line| !line.starts_with("FAIL  open")).collect::<Vec<_>>();
    let failed: Vec<_> = failed.iter().map(|line| &line["FAIL  configuration  ".len()..]).collect();
    assert!(failed.join(" ").contains("Connection refused (os error 111)"), "{text}");
    assert!(failed.contains(&"Try: a look whether the server runs"), "{text}");
    for line in text.lines() {
        assert!(!line["FAIL  configuration  ".len()..].contains("  "), "{line:?}");
    }
}
