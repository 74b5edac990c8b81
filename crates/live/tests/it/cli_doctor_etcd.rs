//! `doctor` on etcd: the faults of a cluster, and the rights of a user.

use std::process::Command;
use std::time::{Duration, Instant};

use lockkeeper_live::{Etcd, etcd_debian, etcd_tls, interop_binary};

use crate::cli_doctor::{PATIENTLY, Report};
use crate::cli_everything::everything;
use crate::support::program;

fn report(url: &str) -> Report {
    report_with(url, &PATIENTLY)
}

/// A stop or a kill is noticed later: repeats the report until it is.
fn report_once(url: &str, noticed: impl Fn(&Report) -> bool) -> Report {
    let began = Instant::now();
    loop {
        let report = report(url);
        if noticed(&report) {
            return report;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{:#?}", report.lines);
    }
}

fn report_with(url: &str, more: &[&str]) -> Report {
    let mut command = program();
    // A URL with a password is not for the command line.
    command.args(["doctor", "--json"]).args(more).env("LOCKKEEPER_STORE", url);
    Report::of(&command.output().unwrap())
}

impl Report {
    /// Status and finding of each of these lines.
    fn each(&self, check: &str) -> Vec<(&str, &str)> {
        let lines = self.lines.iter().filter(|line| line["check"] == check);
        lines
            .map(|line| (line["status"].as_str().unwrap(), line["finding"].as_str().unwrap()))
            .collect()
    }
}

/// A command of an administrator.
fn etcdctl(etcd: &Etcd, line: &str, user: Option<&str>) {
    let binary = interop_binary("bin/etcdctl").unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-euc", line]).env("PATH", binary.parent().unwrap());
    shell.env("ETCDCTL_ENDPOINTS", etcd.addresses()[0].to_string());
    shell.env("ETCDCTL_DIAL_TIMEOUT", "60s").env("ETCDCTL_COMMAND_TIMEOUT", "60s");
    user.into_iter().for_each(|user| {
        shell.env("ETCDCTL_USER", user);
    });
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The size of the data.
fn size(etcd: &Etcd) -> u64 {
    let status = etcd.control().call("maintenance/status", &serde_json::json!({})).unwrap();
    status["dbSize"].as_str().unwrap().parse().unwrap()
}

/// Clients have to log in; user `app` has no rights yet, and role `app`.
fn with_users() -> Etcd {
    let etcd = Etcd::builder().option("bcrypt-cost", "4").start().unwrap();
    for line in [
        "etcdctl user add root:secret",
        "etcdctl role add root",
        "etcdctl user grant-role root root",
        "etcdctl user add app:pw",
        "etcdctl role add app",
        "etcdctl user grant-role app app",
        "etcdctl auth enable",
    ] {
        etcdctl(&etcd, line, None);
    }
    etcd
}

#[test]
fn a_sound_etcd_passes_and_doctor_leaves_only_the_layout_key() {
    let etcd = Etcd::builder().durable().start().unwrap();
    let report = report(&etcd.url());
    assert_eq!((report.code, report.failed()), (Some(0), vec![]), "{:#?}", report.lines);
    let version = format!("etcd {}", etcd.control().version().unwrap());
    for (check, finding) in [
        ("store", "etcd://127.0.0.1:"),
        ("server", &*version),
        ("members", "1 member: while it is down"),
        ("database", "; quota "),
        ("auth", "off: "),
        ("lease", "the shortest lease lasts 1 s"),
        ("rights", "this user may do all that locks need"),
        ("latency", "a read takes "),
        ("round trip", "a lock and its release take "),
        ("locks", "0 in use"),
        ("capabilities", "the locks of a client share its lease"),
    ] {
        let [status, found, _] = report.line(check);
        // A machine of a test may be slow.
        let well = status == "ok" || ["latency", "round trip"].contains(&check) && status == "warn";
        assert!(well && found.contains(finding), "{check}: {status} {found}");
    }
    // A disk of a test's machine may be slow.
    assert!(report.line("disk")[1].starts_with("fsync "), "{:#?}", report.lines);
    let control = etcd.control();
    let keys: Vec<_> = control.keys("").unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(
        (keys, control.leases().unwrap()),
        (vec![b"/lockkeeper/.id".to_vec(), b"/lockkeeper/.layout".to_vec()], vec![])
    );
}

#[test]
fn keys_that_are_no_claims_are_named() {
    let etcd = Etcd::start().unwrap();
    for key in ["a/qty", "a/b/c", "b/6c0ffee-0", "c/x"] {
        etcd.control().put(format!("/lockkeeper/.lock/{key}"), "7").unwrap();
    }
    etcd.control().put("/lockkeeper/a/qty", "7").unwrap();
    let lease = etcd.control().grant(600).unwrap();
    let record = r#"{"lockkeeper":1,"id":"abababababababababababababababab","owner":"old","lease_ms":30000,"client":"c"}"#;
    etcd.control().put_with_lease("/lockkeeper/old/6c0ffee-0", record, lease).unwrap();
    let report = report(&etcd.url());
    let [(of_keys, strays), (of_old, old)] = report.each("keys")[..] else {
        panic!("{:#?}", report.lines)
    };
    assert_eq!((of_keys, of_old), ("warn", "warn"));
    let named = "/lockkeeper/.lock/a/b/c, /lockkeeper/.lock/a/qty, /lockkeeper/.lock/b/6c0ffee-0 and 1 more";
    assert!(strays.ends_with(named), "{strays}");
    assert!(old.starts_with("an older lockkeeper is at work in /lockkeeper/old/:"), "{old}");
    assert_eq!(report.failed(), ["layout", "round trip"], "{:#?}", report.lines);
}

#[test]
fn an_old_one_is_reported_with_its_mistakes() {
    let etcd = etcd_debian().unwrap();
    let refused = report(&etcd.url());
    let [_, finding, remedy] = refused.line("server");
    assert_eq!(
        (refused.code, &*refused.failed()),
        (Some(1), &["server"][..]),
        "{:#?}",
        refused.lines
    );
    let name = format!("etcd {} is older than 3.5.14", etcd.control().version().unwrap());
    assert!(finding.starts_with(&name) && remedy.contains("unsafe=version"), "{finding}");
    let report = report(&format!("{}?unsafe=version", etcd.url()));
    let [status, finding, remedy] = report.line("server");
    assert_eq!((report.code, status), (Some(0), "warn"), "{:#?}", report.lines);
    assert!(
        finding.contains("it renews leases that are revoked") && remedy.contains("etcd 3.6"),
        "{finding}"
    );
}

#[test]
fn members_that_are_down_cut_off_or_missing_in_the_url_are_named() {
    // The leader is to be the same all the while.
    let mut etcd =
        Etcd::builder().members(3).election_timeout(Duration::from_secs(3)).start().unwrap();
    let (all, leader) = (etcd.addresses(), etcd.leader().unwrap());
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let well = report(&etcd.url());
    assert_eq!((well.code, well.failed()), (Some(0), vec![]), "{:#?}", well.lines);
    assert_eq!(
        well.each("members"),
        [("ok", &*format!("3 members, led by {}; 1 may fail", all[leader]))]
    );
    assert_eq!(well.each("server").len(), 1, "{:#?}", well.lines);

    let few = report(&format!("etcd://{}", all[leader]));
    let [_, (status, finding)] = few.each("members")[..] else { panic!("{:#?}", few.lines) };
    assert!(status == "warn" && finding.starts_with("the URL does not name m"), "{finding}");
    let remedy = few
        .lines
        .iter()
        .find_map(|line| line["remedy"].as_str().filter(|printed| printed.contains("in the URL")));
    assert!(all.iter().all(|at| remedy.unwrap().contains(&at.to_string())), "{remedy:?}");

    etcd.isolate(one).unwrap();
    let alone = format!("{} has no leader: the other members do not reach it", all[one]);
    // Until the cut-off member notices, it goes on following.
    let apart =
        report_once(&etcd.url(), |report| report.each("members").contains(&("warn", &alone)));
    assert_eq!(apart.code, Some(0), "{:#?}", apart.lines);
    etcd.heal(one);

    etcd.kill(other).unwrap();
    let down = report_once(&etcd.url(), |down| {
        down.code == Some(0)
            && down.line("members")[1].ends_with("if another fails, no lock can be acquired")
    });
    let [status, finding, _] = down.line("member");
    assert!(status == "warn" && finding.starts_with(&all[other].to_string()), "{finding}");

    etcd.kill(one).unwrap();
    // Until the leader notices, it goes on leading.
    let lost = report_once(&etcd.url(), |report| report.failed() == ["members"]);
    assert_eq!(lost.code, Some(1));
    assert!(
        lost.line("members")[1].starts_with("3 members, 1 reachable, and no leader"),
        "{:#?}",
        lost.lines
    );
}

#[test]
fn members_of_two_clusters_fail() {
    let (one, other) = (Etcd::start().unwrap(), Etcd::start().unwrap());
    // Two members have the same id in their clusters if they have the same name and address. These
    // do not.
    let report = report(&format!("etcd://{},{}", one.addresses()[0], other.addresses()[0]));
    assert_eq!((report.code, report.failed()), (Some(1), vec!["members"]), "{:#?}", report.lines);
    let finding =
        format!("{} is of another cluster than {}", other.addresses()[0], one.addresses()[0]);
    assert!(report.each("members")[1].1.starts_with(&finding), "{:#?}", report.lines);
}

#[test]
fn one_that_is_not_there_or_silent_is_one_line() {
    let mut etcd = Etcd::start().unwrap();
    etcd.pause(0).unwrap();
    let found = report_with(&etcd.url(), &["--connect-timeout", "500ms"]);
    assert_eq!((found.code, found.failed()), (Some(1), vec!["open"]), "{:#?}", found.lines);
    assert!(found.line("open")[1].contains("no answer within 500ms"), "{:#?}", found.lines);
    etcd.kill(0).unwrap();
    let found = report(&etcd.url());
    assert_eq!((found.code, found.failed()), (Some(1), vec!["open"]), "{:#?}", found.lines);
    assert!(found.line("open")[1].contains("Connection refused"), "{:#?}", found.lines);
}

#[test]
fn a_full_member_and_one_without_fsync_are_reported_with_a_remedy() {
    let quota = 64 << 20;
    let etcd = Etcd::builder().quota(quota).start().unwrap();
    let much = vec![b'x'; 1 << 20];
    let put = |number: i32| etcd.control().put(format!("big/{number}"), &much);
    let filled =
        (0..64).take_while(|_| size(&etcd) < quota * 5 / 6).map(put).all(|put| put.is_ok());
    assert!(filled);
    let filling = report(&etcd.url());
    assert_eq!((filling.code, filling.failed()), (Some(0), vec![]), "{:#?}", filling.lines);
    let [status, finding, remedy] = filling.line("database");
    assert!(
        status == "warn" && finding.ends_with("at 67.1 MB etcd takes no more locks"),
        "{finding}"
    );
    assert!(remedy.contains("--quota-backend-bytes"), "{remedy}");
    let [status, finding, _] = filling.line("disk");
    assert!(status == "warn" && finding.contains("--unsafe-no-fsync"), "{finding}");

    assert!((64..128).any(|number| put(number).is_err()));
    let full = report(&etcd.url());
    assert_eq!((full.code, full.failed()), (Some(1), vec!["alarm"]), "{:#?}", full.lines);
    let [_, finding, remedy] = full.line("alarm");
    assert!(
        finding.starts_with("NOSPACE: ") && remedy.contains("etcdctl alarm disarm"),
        "{finding} {remedy}"
    );
}

#[test]
fn a_shortest_lease_that_costs_more_than_the_ttl_is_reported() {
    let etcd = Etcd::builder().election_timeout(Duration::from_secs(3)).start().unwrap();
    let [status, finding, remedy] = report(&etcd.url()).line("lease").map(str::to_owned);
    assert!(status == "warn" && finding.starts_with("the shortest lease lasts 5 s: "), "{finding}");
    assert!(remedy.starts_with("--election-timeout="), "{remedy}");
}

#[test]
fn one_behind_tls_is_examined_as_any_other() {
    let etcd = etcd_tls().unwrap();
    let authority = etcd.certificates().unwrap().authority();
    let found = report(&format!("{}?ca={}", etcd.url(), authority.display()));
    assert_eq!((found.code, found.failed()), (Some(0), vec![]), "{:#?}", found.lines);
    // This, too, came through TLS.
    assert!(found.line("disk")[1].contains("--unsafe-no-fsync"), "{:#?}", found.lines);
}

#[test]
fn who_may_not_log_in_learns_so_without_the_password() {
    let etcd = with_users();
    let at = etcd.addresses()[0];
    for (url, finding) in [
        (format!("etcd://app:hunter2@{at}"), "authentication failed"),
        (format!("etcd://{at}"), "the URL names no user"),
    ] {
        let found = report(&url);
        assert_eq!((found.code, found.failed()), (Some(1), vec!["auth"]), "{:#?}", found.lines);
        assert!(found.line("auth")[1].contains(finding), "{:#?}", found.lines);
        assert!(!format!("{:?}", found.lines).contains("hunter2"));
    }
    let without = Etcd::start().unwrap();
    let found = report(&format!("etcd://app:hunter2@{}", without.addresses()[0]));
    assert_eq!(found.failed(), ["auth"], "{:#?}", found.lines);
    assert!(found.line("auth")[2].starts_with("the URL without a user"), "{:#?}", found.lines);
}

#[test]
fn the_shown_role_suffices_and_a_user_without_it_learns_the_rights() {
    let etcd = with_users();
    let login = format!("etcd://app:pw@{}", etcd.addresses()[0]);
    for url in [
        login.clone(),
        format!("{login}/my%20shop"),
        format!("{login}?layout=concurrency&prefix=mine/"),
    ] {
        let denied = report(&url);
        assert_eq!(
            (denied.code, denied.failed()),
            (Some(1), vec!["rights"]),
            "{:#?}",
            denied.lines
        );
        let [_, finding, role] = denied.line("rights");
        assert!(
            finding.starts_with("this user may not ") && finding.contains("permission denied"),
            "{finding}"
        );
        assert!(
            role.starts_with("etcdctl role grant-permission ROLE --prefix readwrite "),
            "{role}"
        );
        etcdctl(&etcd, &role.replace("ROLE", "app"), Some("root:secret"));
        let allowed = report(&url);
        assert_eq!((allowed.code, allowed.failed()), (Some(0), vec![]), "{:#?}", allowed.lines);
        assert_eq!(allowed.line("rights")[2], role);
        assert_eq!(allowed.line("auth")[1], "on; this is user \"app\"");
    }
    everything(&login);
}
