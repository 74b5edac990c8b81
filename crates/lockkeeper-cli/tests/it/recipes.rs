//! The recipes of the manual. Each test has the text of the manual, with other names of programs.

use std::process::{Command, Output};
use std::thread;

use rusqlite::Connection;
use rustix::process::Signal;

use crate::documents::{block, blocks};
use crate::support::{
    Process, Store, code_of, event_names, eventually, script, sh, stderr, stdout, text, waiters,
};

/// A line as typed into a shell, or into a crontab.
fn shell(store: &Store, line: &str) -> Command {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).current_dir(store.path("."));
    command.env("PATH", path).env("LOCKKEEPER_STORE", store.url());
    command
}

/// The same line on several hosts at once.
fn everywhere(store: &Store, hosts: usize, line: &str) -> Vec<Output> {
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..hosts).map(|_| scope.spawn(|| shell(store, line).output().unwrap())).collect();
        running.into_iter().map(|host| host.join().unwrap()).collect()
    })
}

#[test]
fn recipe_cron_on_five_hosts_makes_one_report() {
    let store = Store::new();
    script(&store.path("report.sh"), "#!/bin/sh\necho report >> reports\n");
    // The clock of the first host is ahead: its report is ready before the others begin.
    let first = ["run", "-n", "-E", "0", "--min-hold", "10m", "report", "--", "./report.sh"];
    assert_eq!(store.code(&first), 0);
    assert_eq!(text(store.path("reports")), "report\n");
    for output in
        everywhere(&store, 4, "lockkeeper run -n -E 0 --min-hold 60s report -- ./report.sh")
    {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        // Cron would send such output by mail.
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(text(store.path("reports")), "report\n");
}

/// The crontab of the document, as cron on a host with these programs runs its line: without the
/// settings of a login shell.
fn cron(store: &Store) -> Command {
    let crontab = block("docs/recipes.md", "* * * *  ");
    let line = crontab.lines().find(|line| line.starts_with('*')).unwrap();
    assert!(!line.contains('%'), "cron takes % for the end of the line: {line}");
    let command = line.splitn(6, ' ').last().unwrap().trim_start();
    let programs =
        std::path::Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().to_str().unwrap();
    let here = |text: &str| {
        let report = store.path("report.sh").display().to_string();
        text.replace("/usr/local/bin", programs).replace("/opt/report.sh", &report)
    };
    let mut cron = Command::new("/bin/sh");
    cron.arg("-c")
        .arg(here(command))
        .current_dir(store.path("."))
        .stdin(std::process::Stdio::null());
    cron.env_clear().env("HOME", store.path(".")).env("LOGNAME", "root").env("SHELL", "/bin/sh");
    cron.env("PATH", "/usr/bin:/bin");
    for (name, value) in
        crontab.lines().filter(|line| line.contains('=')).filter_map(|line| line.split_once('='))
    {
        match name {
            "LOCKKEEPER_STORE" => cron.env(name, store.url()),
            _ => cron.env(name, here(value)),
        };
    }
    cron
}

#[test]
fn recipe_cron_runs_as_it_is_printed_in_the_environment_of_cron() {
    let store = Store::new();
    script(&store.path("report.sh"), "#!/bin/sh\necho report >> reports\n");
    for _host in 0..2 {
        let output = cron(&store).output().unwrap();
        // Cron would send other output by mail.
        assert_eq!(
            (output.status.code(), stdout(&output).as_str(), stderr(&output).as_str()),
            (Some(0), "", "")
        );
        assert_eq!(text(store.path("reports")), "report\n");
        assert_eq!(store.inspect("report")["state"], "kept");
    }
    // A host without a configured store reports that error, and does not write the report.
    let output = cron(&store).env_remove("LOCKKEEPER_STORE").output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    assert_eq!(text(store.path("reports")), "report\n");
}

#[test]
fn a_conflict_that_is_no_failure_is_reported_to_machines_only() {
    let store = Store::new();
    let _holder = store.hold("a");
    for wait in ["-w0", "-w300ms"] {
        let output = store.output(&["run", wait, "-E", "0", "a", "--", "true"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{wait}");
    }
    let output =
        store.output(&["run", "-n", "-E", "0", "--json", "--events", "log", "a", "--", "true"]);
    for events in [stderr(&output), text(store.path("log"))] {
        assert_eq!(event_names(&events), ["busy", "exited"]);
    }
}

#[test]
fn recipe_one_deploy_at_a_time() {
    let store = Store::new();
    // A second deployment beside it would find the folder.
    let deploy = "#!/bin/sh\nmkdir deploying || exit 9\nlockkeeper inspect deploy/web --json > seen\nrmdir deploying\n";
    script(&store.path("deploy.sh"), deploy);
    let line = "CI_JOB_URL=https://ci/jobs/4711; \
                lockkeeper run -w 15m --reason \"$CI_JOB_URL\" deploy/web -- ./deploy.sh";
    for output in everywhere(&store, 4, line) {
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{printed}");
        // The message names the holder.
        assert!(
            printed.lines().all(|line| line.contains("waiting, ") && line.ends_with(" (https://ci/jobs/4711)")),
            "{printed}"
        );
    }
    let seen: serde_json::Value = serde_json::from_str(&text(store.path("seen"))).unwrap();
    assert_eq!(seen["holders"][0]["reason"], "https://ci/jobs/4711");
}

#[test]
fn recipe_migrations_run_in_one_pod_and_the_others_find_no_work() {
    let store = Store::new();
    let migrate = "#!/bin/sh\ntest -e migrated && { echo nothing to do; exit 0; }\n\
                   echo migrating; sleep 0.3; touch migrated\n";
    script(&store.path("sqlx"), migrate);
    let outputs =
        everywhere(&store, 5, "PATH=.:$PATH; lockkeeper run -w 5m migrations -- sqlx migrate run");
    let mut said: Vec<String> = outputs.iter().map(stdout).collect();
    said.sort_unstable();
    assert_eq!(said, [&["migrating\n"][..], &["nothing to do\n"; 4]].concat());
    for output in outputs {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn recipe_one_of_three_replicas_leads() {
    let store = Store::new();
    script(
        &store.path("scheduler"),
        "#!/bin/sh\necho $LOCKKEEPER_FENCING_TOKEN >> leaders\nexec sleep 1000\n",
    );
    let line = "exec lockkeeper elect scheduler -- ./scheduler";
    let mut replicas: Vec<Process> =
        (0..3).map(|_| Process::start(&mut shell(&store, line))).collect();
    store.inspect_until("scheduler", |lock| waiters(lock) == 2);
    let leaders = || {
        text(store.path("leaders"))
            .lines()
            .map(|token| token.parse::<u64>().unwrap())
            .collect::<Vec<_>>()
    };
    for led in 1..=3 {
        eventually("another leader", || leaders().len() == led);
        let name = stdout(&shell(&store, "lockkeeper leader scheduler").output().unwrap());
        // By default the leader shows its owner, which ends with its process id.
        let location = replicas
            .iter()
            .position(|replica| name.trim_end().ends_with(&format!(":{}", replica.pid())));
        let mut leader = replicas.remove(location.unwrap_or_else(|| panic!("{name}")));
        leader.signal(Signal::KILL);
        leader.wait();
    }
    assert!(leaders().is_sorted_by(|a, b| a < b), "{:?}", leaders());
}

/// A statement is under way when its sender is stopped. Another client gets the lock, and then the
/// statement arrives.
#[test]
fn a_late_write_of_a_stopped_holder_is_refused() {
    let store = Store::new();
    let database = Connection::open_in_memory().unwrap();
    database
        .execute_batch("CREATE TABLE cfg (v TEXT, fence BIGINT); INSERT INTO cfg VALUES ('-', 0)")
        .unwrap();
    let write = |who: &str| {
        format!(
            "echo \"UPDATE cfg SET v='{who}', fence=$LOCKKEEPER_FENCING_TOKEN WHERE fence<=$LOCKKEEPER_FENCING_TOKEN\"; cat"
        )
    };
    let mut a = store.start(&sh(&["run", "cfg", "-t", "1s"], &write("A")));
    let from_a = a.line();
    a.signal(Signal::STOP);
    let mut b = store.start(&sh(&["run", "cfg"], &write("B")));
    let from_b = b.line();
    assert_eq!(database.execute(&from_b, ()).unwrap(), 1);
    assert_eq!(database.execute(&from_a, ()).unwrap(), 0, "{from_a}");
    let v: String = database.query_row("SELECT v FROM cfg", (), |row| row.get(0)).unwrap();
    assert_eq!(v, "B");
    a.signal(Signal::CONT);
    assert_eq!(a.finish(), 79);
    assert_eq!(b.finish(), 0);
}

/// A waiter has a token too on this store, and a later one.
#[test]
fn the_documented_break_breaks_the_holder_while_another_waits() {
    let scripts: Vec<String> = blocks("docs/operations.md")
        .into_iter()
        .filter(|code| code.contains("--token \"$token\""))
        .collect();
    assert_eq!(scripts.len(), 2, "{scripts:?}");
    for code in scripts {
        // The waiter comes first after the break.
        let code = code.replace("lockkeeper run -n", "lockkeeper run -n -E 0");
        let store = Store::new();
        script(&store.path("deploy.sh"), "#!/bin/sh\nexit 0\n");
        let mut holder = store.start(&["run", "-t", "3s", "deploy/web", "--json", "--", "cat"]);
        holder.event("started");
        let mut next = store.queue(&sh(&["run", "deploy/web"], "echo mine; cat"), "deploy/web", 0);
        let lock = store.inspect("deploy/web");
        assert_ne!(lock["holders"][0]["token"], lock["last_token"]);
        let output = shell(&store, &format!("set -e\n{code}")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{code}{}", stderr(&output));
        assert_eq!(code_of(holder.wait()), 79, "{code}");
        assert_eq!(next.line(), "mine", "{code}");
        assert_eq!(next.finish(), 0, "{code}");
    }
}
