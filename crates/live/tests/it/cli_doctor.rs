//! `doctor` on Redis: the faults of a server, and the rights of a user.

use std::process::Output;
use std::time::{Duration, Instant};

use lockkeeper_live::{Cluster, Redis, Sentinel};
use serde_json::Value;

use crate::cli_everything::everything;
use crate::support::{Store, program, stderr, stdout};

/// On a busy machine the examination takes longer than most users would wait.
pub(crate) const PATIENTLY: [&str; 2] = ["--connect-timeout", "60s"];
/// The lines of a report, by their check.
pub(crate) struct Report {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<Value>,
}

impl Report {
    pub(crate) fn of(output: &Output) -> Self {
        assert_eq!(stderr(output), "");
        let lines =
            stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { code: output.status.code(), lines }
    }

    /// Status, finding and remedy.
    pub(crate) fn line(&self, check: &str) -> [&str; 3] {
        let line = self.lines.iter().find(|line| line["check"] == check);
        let line = line.unwrap_or_else(|| panic!("{check}: {:#?}", self.lines));
        ["status", "finding", "remedy"].map(|field| line[field].as_str().unwrap_or_default())
    }

    pub(crate) fn failed(&self) -> Vec<&str> {
        let failed = self.lines.iter().filter(|line| line["status"] == "FAIL");
        failed.map(|line| line["check"].as_str().unwrap()).collect()
    }
}

fn report(store: &Store) -> Report {
    Report::of(&store.output(&[&["doctor", "--json"], &PATIENTLY[..]].concat()))
}

/// As this user, with the password `pw`.
fn report_of_user(url: &str, user: &str, limit: &[&str; 2]) -> Report {
    let url = url.replacen("://", &format!("://{user}@"), 1);
    let mut command = program();
    command.args(["-S", &url, "doctor", "--json"]).args(limit).env("LOCKKEEPER_PASSWORD", "pw");
    Report::of(&command.output().unwrap())
}

/// The rule in the report, with the user and the password filled in.
fn rule(report: &Report, user: &str) -> Vec<String> {
    let [_, _, rule] = report.line("rights");
    let words = rule.split(' ').map(|word| match word {
        "NAME" => user.to_owned(),
        ">PASSWORD" => ">pw".to_owned(),
        word => word.to_owned(),
    });
    words.collect()
}

fn obey(store: &Store, rule: &[String]) {
    let words: Vec<_> = rule.iter().map(String::as_str).collect();
    store.with_server(|server| server.run(&words)).unwrap();
}

/// The duration of a lock and its release, from the finding.
fn millis(found: &str) -> f64 {
    let took = found.split(' ').nth(6).unwrap();
    let (number, unit) = took.split_at(took.find(char::is_alphabetic).unwrap());
    number.parse::<f64>().unwrap()
        * if unit == "s" { 1000.0 } else { f64::from(u8::from(unit == "ms")) }
}

#[test]
fn a_good_server_has_nothing_against_it() {
    let store = Store::on(Redis::builder().persistent().start().unwrap());
    let report = report(&store);
    assert_eq!((report.code, report.failed()), (Some(0), vec![]), "{:#?}", report.lines);
    let version = store.with_server(|server| {
        let version =
            |field: &str, name: &str| server.info(field).map(|version| format!("{name} {version}"));
        version("valkey_version", "Valkey").or_else(|_| version("redis_version", "Redis")).unwrap()
    });
    for (check, finding) in [
        ("store", "redis://127.0.0.1:"),
        ("server", &version),
        ("role", "master"),
        ("eviction", "maxmemory-policy noeviction"),
        ("persistence", "every write on disk before it is answered"),
        ("replicas", "no server takes over"),
        ("memory", "no limit"),
        ("clock", "the server's clock agrees with this machine's"),
        ("rights", "this user may do all that locks need"),
        ("round trip", "a lock and its release take "),
        ("locks", "0 in use"),
        ("capabilities", "fencing tokens rise, unless data are lost"),
    ] {
        let [status, found, _] = report.line(check);
        assert!(found.contains(finding), "{check}: {status} {found}");
        // The machine of a test may be slow; then the finding is a warning.
        let expected = if check == "round trip" && millis(found) > 100.0 { "warn" } else { "ok" };
        assert_eq!(status, expected, "{check}: {found}");
    }
    let text = stdout(&store.output(&["doctor"]));
    // A long finding comes where it does not push other columns away.
    assert!(text.lines().all(|line| line.find("appendonly").is_none_or(|at| at < 160)), "{text}");
}

#[test]
fn what_a_server_forgets_is_reported_with_what_to_do() {
    let store = Store::new();
    let [status, finding, remedy] = report(&store).line("persistence").map(str::to_owned);
    assert_eq!(
        (status.as_str(), finding.as_str()),
        ("warn", "none: a restart loses all locks, also held locks")
    );
    assert!(remedy.starts_with("appendonly yes"), "{remedy}");
    let set = |parameter: &str, value: &str| {
        store.with_server(|server| server.set(parameter, value)).unwrap()
    };
    set("save", "3600 1");
    assert!(report(&store).line("persistence")[1].starts_with("snapshots only: "));
    set("save", "");
    set("appendonly", "yes");
    assert!(
        report(&store).line("persistence")[1].ends_with("a power cut may lose the last second")
    );
    set("appendfsync", "no");
    assert_eq!(report(&store).line("persistence")[0], "warn");
    set("appendonly", "no");
    set("maxmemory", "3mb");
    assert!(report(&store).line("memory")[1].ends_with("% of maxmemory is used"));
    set("maxmemory", "1kb");
    let full = report(&store);
    assert_eq!(full.line("memory")[0], "warn");
    assert!(
        full.line("round trip")[1].contains("OOM")
            && full.line("round trip")[2].contains("maxmemory")
    );
    // The failures of this setting must not remain in a server for other tests.
    set("maxmemory", "0");
    set("appendfsync", "everysec");
}

#[test]
fn a_server_that_evicts_fails_unless_that_is_waived() {
    let store =
        Store::on(Redis::builder().config("maxmemory-policy", "allkeys-lru").start().unwrap());
    let found = report(&store);
    assert_eq!((found.code, found.failed()), (Some(1), vec!["eviction"]), "{:#?}", found.lines);
    let [_, finding, remedy] = found.line("eviction");
    assert!(
        finding.contains("allkeys-lru")
            && remedy.starts_with("maxmemory-policy noeviction (by CONFIG SET")
    );
    let waived = format!("{}?unsafe=eviction", store.url());
    let found = Report::of(
        &program().args(["-S", &waived, "doctor", "--json"]).args(PATIENTLY).output().unwrap(),
    );
    assert_eq!((found.code, found.line("eviction")[0]), (Some(0), "warn"), "{:#?}", found.lines);
}

#[test]
fn a_replica_fails_and_names_its_master() {
    let master = Redis::start().unwrap();
    let store = Store::on(Redis::builder().replica_of(&master).start().unwrap());
    let found = report(&store);
    assert_eq!((found.code, found.failed()), (Some(1), vec!["role"]), "{:#?}", found.lines);
    assert!(found.line("role")[2].starts_with(&format!("its master, {}", master.address())));
    let master = Store::on(master);
    let [status, finding, remedy] = report(&master).line("replicas").map(str::to_owned);
    assert!(status == "warn" && finding.starts_with("1, and min-replicas-to-write 0"), "{finding}");
    assert!(remedy.contains("min-replicas=1"), "{remedy}");
    master.with_server(|server| server.set("min-replicas-to-write", "1")).unwrap();
    assert_eq!(report(&master).line("replicas")[0], "ok");
    master.with_server(|server| server.set("min-replicas-to-write", "2")).unwrap();
    let starved = report(&master);
    assert!(starved.line("round trip")[1].contains("NOREPLICAS"), "{:#?}", starved.lines);
}

#[test]
fn a_clock_that_is_off_is_reported() {
    let server = Redis::builder().with_clock().start().unwrap();
    server.set_clock_offset(60).unwrap();
    let store = Store::on(server);
    let found = report(&store);
    let [status, finding, _] = found.line("clock");
    // No lock depends on this clock.
    assert!(
        status == "ok"
            && (finding.contains(" 60.") || finding.contains(" 59."))
            && finding.contains("s ahead of this machine's, which does no harm"),
        "{finding}"
    );
    assert_eq!(found.code, Some(0));
}

#[test]
fn a_server_that_is_not_there_or_silent_is_one_line() {
    let store = Store::new();
    let outage = store.outage();
    let found = Report::of(&store.output(&["doctor", "--json", "--connect-timeout", "500ms"]));
    assert_eq!((found.code, found.failed()), (Some(1), vec!["open"]), "{:#?}", found.lines);
    assert!(found.line("open")[1].contains("did not answer within 500ms"));
    drop(outage);
    store.with_server(|server| server.kill()).unwrap();
    let found = report(&store);
    assert_eq!((found.code, found.failed()), (Some(1), vec!["open"]), "{:#?}", found.lines);
    assert!(found.line("open")[1].contains("Connection refused"));
    store.with_server(|server| server.restart()).unwrap();
}

#[test]
fn a_user_by_the_rule_can_do_everything() {
    let store = Store::on(Redis::start().unwrap());
    let shown = report(&store);
    obey(&store, &rule(&shown, "app"));
    let found = report_of_user(&store.url(), "app", &PATIENTLY);
    assert_eq!((found.code, found.failed()), (Some(0), vec![]), "{:#?}", found.lines);
    let url = store.url().replace("redis://", "redis://app:pw@");
    everything(&url);
    // During the whole test the server refused nothing but the name of the connection.
    let log: String = store.with_server(|server| {
        let mut connection = server.connect().unwrap();
        format!("{:?}", redis_log(&mut connection))
    });
    let refused: Vec<_> = log
        .split("\"object\"")
        .skip(1)
        .map(|entry| entry.chars().take(40).collect::<String>())
        .collect();
    assert!(
        refused
            .iter()
            .all(|entry| ["\"client", "\"config"].iter().any(|word| entry.contains(word))),
        "{refused:#?}"
    );
}

/// The refused commands in the server's log.
fn redis_log(connection: &mut impl redis::ConnectionLike) -> Vec<Vec<redis::Value>> {
    redis::cmd("ACL").arg("LOG").query(connection).unwrap()
}

#[test]
fn a_user_without_any_word_of_the_rule_learns_the_rule() {
    let store = Store::on(Redis::start().unwrap());
    let shown = report(&store);
    let whole = rule(&shown, "app");
    let words: Vec<_> =
        (0..whole.len()).filter(|word| whole[*word].starts_with(['+', '~', '&'])).collect();
    let user = |word: usize| format!("app-{word}");
    for word in &words {
        let mut rest = rule(&shown, &user(*word));
        rest.remove(*word);
        obey(&store, &rest);
    }
    let url = store.url();
    let learns_the_rule = |word: usize| {
        let (missing, began) = (&whole[word], Instant::now());
        let found = report_of_user(&url, &user(word), &PATIENTLY);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "without {missing} the doctor waits: {:#?}",
            found.lines
        );
        let [status, finding, remedy] = found.line("rights");
        assert_eq!(
            (status, found.code),
            ("FAIL", Some(1)),
            "without {missing}: {:#?}",
            found.lines
        );
        assert!(
            remedy.starts_with("ACL SETUSER NAME reset ") && remedy.contains(missing),
            "{remedy}"
        );
        let word = missing.trim_start_matches('+').replace('|', " ");
        let named = finding.to_lowercase().contains(&word) || !missing.starts_with('+');
        assert!(named, "without {missing}: {finding}");
    };
    std::thread::scope(|scope| {
        let learns_the_rule = &learns_the_rule;
        words.iter().for_each(|word| drop(scope.spawn(move || learns_the_rule(*word))));
    });
}

/// From Redis 7 on, the messages of a Cluster go to its shards.
#[test]
fn a_user_of_a_cluster_without_a_right_to_the_messages_of_shards_learns_the_rule() {
    let cluster = Cluster::builder().replicas(0).start().unwrap();
    let mut command = program();
    command.args(["-S", &cluster.url(), "doctor", "--json"]).args(PATIENTLY);
    let whole = rule(&Report::of(&command.output().unwrap()), "app");
    for missing in
        whole.iter().filter(|word| ["+ssubscribe", "+sunsubscribe"].contains(&word.as_str()))
    {
        let rest: Vec<_> =
            whole.iter().filter(|word| *word != missing).map(String::as_str).collect();
        cluster.nodes().iter().for_each(|node| node.run(&rest).unwrap());
        let found = report_of_user(&cluster.url(), "app", &PATIENTLY);
        let [status, finding, _] = found.line("rights");
        let named = finding.to_lowercase().contains(missing.trim_start_matches('+'));
        assert!(status == "FAIL" && named, "without {missing}: {:#?}", found.lines);
    }
}

/// With the shown rule the Sentinels answer; without one word of it the report names the missing
/// right, and shows the rule.
#[test]
fn a_sentinel_user_needs_every_word_of_the_shown_rule() {
    let examine = |rules: &str| {
        let sentinels =
            Sentinel::builder().replicas(0).user(&format!("app {rules}")).start().unwrap();
        let url = format!("{}?sentinel-user=app&sentinel-password=pw", sentinels.url());
        let report = Report::of(
            &program()
                .args(["doctor", "--json"])
                .args(PATIENTLY)
                .env("LOCKKEEPER_STORE", url)
                .output()
                .unwrap(),
        );
        (report, sentinels)
    };
    let (denied, _sentinels) = examine("on >pw +info +ping");
    let [status, finding, rule] = denied.line("rights");
    assert!(status == "FAIL" && finding.contains("'sentinel"), "{finding}");
    let rules = rule.strip_prefix("ACL SETUSER NAME ").unwrap().replace(">PASSWORD", ">pw");
    let (report, sentinels) = examine(&rules);
    assert_eq!((report.code, report.failed()), (Some(0), vec![]), "{:#?}", report.lines);
    assert_eq!(report.line("sentinels")[2], rule);
    // The rule leaves out the optional rights.
    let refused: String =
        format!("{:?}", sentinels.sentinels()[0].query::<redis::Value>(&["ACL", "LOG"]).unwrap());
    assert!(!refused.contains("subscribe") && !refused.contains("sentinel|"), "{refused}");
}
