//! What one server says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::Check;
use super::super::checks::{self, Info};
use super::super::wire::Value;
use crate::store::{Finding, Level};

/// Clocks may differ by this part of the ttl in use, and by no more than the seconds: a lock that another server takes
/// over ends earlier by the difference, while its holder believes in it.
const PART_APART: f64 = 0.1;
const SECONDS_APART: f64 = 1.0;
/// A server that is fuller than this may refuse the next lock.
const FULL: f64 = 0.9;

/// Everything but its clock.
pub(super) fn look(info: &Info, configured: &BTreeMap<String, String>, waived: &[Check]) -> Vec<Finding> {
    let mut findings = vec![version(info), role(info), eviction(info)];
    for (finding, check) in findings.iter_mut().zip([Check::Version, Check::Replica, Check::Eviction]) {
        judge(finding, check, info, waived);
    }
    findings.push(persistence(info, configured));
    if !info.is_replica() {
        findings.extend(replicas(info, configured));
    }
    findings.extend(memory(info));
    findings
}

/// Gives what is refused the remedy of the refusal; what was waived is only a warning.
fn judge(finding: &mut Finding, check: Check, info: &Info, waived: &[Check]) {
    if finding.level != Level::Fail {
        return;
    }
    if waived.contains(&check) {
        finding.level = Level::Warn;
        return finding.finding.push_str(&format!("; unsafe={} waives this check", check.name()));
    }
    let others: Vec<_> = Check::ALL.into_iter().filter(|other| *other != check).collect();
    if let Err(refused) = checks::refuse(info, &others) {
        finding.remedy = refused.remedy().map(str::to_owned);
    }
}

fn version(info: &Info) -> Finding {
    let name = match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, version) => format!("Redis {}", version.unwrap_or("of an unknown version")),
    };
    match info.is_old() {
        true => Finding::fail("server", format!("{name} is older than 6.2"), "a newer server"),
        false => Finding::ok("server", name),
    }
}

fn role(info: &Info) -> Finding {
    match info.is_replica() {
        true => Finding::fail("role", "a replica: it takes no locks", "the address of its master"),
        false => Finding::ok("role", "master"),
    }
}

fn eviction(info: &Info) -> Finding {
    match (info.evicts(), info.get("maxmemory_policy")) {
        (Some(policy), _) => Finding::fail(
            "eviction",
            format!("maxmemory-policy {policy}: the server deletes locks to make room"),
            checks::NEVER_FORGET,
        ),
        (None, Some(policy)) => Finding::ok("eviction", format!("maxmemory-policy {policy}")),
        (None, None) => Finding::warn(
            "eviction",
            "the server does not report its maxmemory-policy",
            "check the settings of the server",
        ),
    }
}

fn persistence(info: &Info, configured: &BTreeMap<String, String>) -> Finding {
    let remedy = "appendonly yes, and appendfsync always where no lock may be lost to a power cut";
    if info.get("aof_enabled") == Some("1") {
        return match configured.get("appendfsync").map(String::as_str) {
            Some("always") => Finding::ok("persistence", "append-only file, every write on disk before it is answered"),
            Some("no") => Finding::warn("persistence", "append-only file, written when the system decides", remedy),
            _ => Finding::ok("persistence", "append-only file: a power cut may lose the last second"),
        };
    }
    let finding = match configured.get("save").map(String::as_str) {
        Some("") => "none: a restart loses all locks, also held locks",
        Some(_) => "snapshots only: a restart brings released locks back, and loses all locks since the last snapshot",
        None => "no append-only file: a restart loses held locks (this user may not ask about snapshots)",
    };
    Finding::warn("persistence", finding, remedy)
}

fn replicas(info: &Info, configured: &BTreeMap<String, String>) -> Option<Finding> {
    let replicas: u32 = info.get("connected_slaves")?.parse().ok()?;
    let needed = configured.get("min-replicas-to-write").map(String::as_str);
    let asynchronous = "a failover may lose the last locks";
    Some(match (replicas, needed) {
        (0, Some(needed)) if needed != "0" => Finding::fail(
            "replicas",
            format!("none, and min-replicas-to-write {needed}: the server refuses all writes"),
            "more replicas, or CONFIG SET min-replicas-to-write 0",
        ),
        (0, _) => Finding::ok("replicas", "none: no server takes over when this one fails"),
        (_, Some("0")) => Finding::warn(
            "replicas",
            format!("{replicas}, and min-replicas-to-write 0: without its replicas the server still grants locks"),
            "CONFIG SET min-replicas-to-write 1; and min-replicas=1 in the URL",
        ),
        (_, Some(needed)) => {
            Finding::ok("replicas", format!("{replicas}, and min-replicas-to-write {needed}; {asynchronous}"))
        }
        (_, None) => Finding::ok("replicas", format!("{replicas}; {asynchronous}")),
    })
}

/// What is wrong where a lock counts only when so many replicas have it.
pub(super) fn missing_replicas(info: &Info, needed: u32) -> Option<Finding> {
    let replicas: u32 = info.get("connected_slaves")?.parse().ok()?;
    (replicas < needed).then(|| {
        let problem = format!("{replicas}, and min-replicas={needed} in the URL: no lock can be acquired");
        Finding::fail("replicas", problem, "more replicas, or a lower min-replicas in the URL")
    })
}

fn memory(info: &Info) -> Option<Finding> {
    let number = |field: &str| info.get(field).and_then(|value| value.parse::<f64>().ok());
    let (used, most) = (number("used_memory")?, number("maxmemory")?);
    if most == 0.0 {
        return Some(Finding::ok("memory", "no limit of its own"));
    }
    let share = used / most;
    let finding = format!("{:.0} % of maxmemory is used", share * 100.0);
    Some(match share > FULL {
        true => Finding::warn("memory", finding, "a higher maxmemory: a full server refuses locks"),
        false => Finding::ok("memory", finding),
    })
}

/// The clocks of all servers, their replicas too, against ours and each other.
pub(super) fn clocks(offsets: &[Option<f64>], ttl: Duration) -> Finding {
    let known: Vec<f64> = offsets.iter().copied().flatten().collect();
    let [low, high] = [f64::min, f64::max].map(|pick| known.iter().copied().reduce(pick).unwrap_or_default());
    if known.len() < offsets.len() {
        let remedy = "the right to use TIME, and a way from here to each replica";
        return Finding::warn("clock", "a server or a replica did not report its time", remedy);
    }
    let (apart, ttl) = (high - low, ttl.as_secs_f64());
    if apart > SECONDS_APART.min(PART_APART * ttl) {
        let finding = format!("the servers' clocks are {apart:.3} s apart, at a ttl of {ttl} s");
        let remedy = format!(
            "a time service on each server, and a lock-delay of more than {apart:.3} s until then: a lock that moves \
             to a server whose clock is ahead expires so much too early"
        );
        return Finding::warn("clock", finding, remedy);
    }
    match low.abs().max(high.abs()) > SECONDS_APART {
        // Nothing hangs on ours: it is good to know for whoever reads logs.
        true => Finding::ok("clock", format!("{high:+.1} s from this machine's; no lock depends on it")),
        false => Finding::ok("clock", "the same as this machine's, to the second"),
    }
}

/// The value in the answer to `CONFIG GET`.
pub(super) fn setting(answer: Value) -> Option<String> {
    let value = match answer {
        Value::Map(pairs) => pairs.into_iter().next()?.1,
        Value::Array(words) => words.into_iter().nth(1)?,
        _ => return None,
    };
    redis::from_redis_value(value).ok()
}

/// The answer to `TIME`, in µs.
pub(super) fn time(answer: Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\n\
        used_memory:5\r\naof_enabled:1\r\nconnected_slaves:1\r\n";

    fn found(text: &str, configured: &[(&str, &str)], check: &str) -> Finding {
        let configured = configured.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let all = look(&Info::parse(text), &configured, &[]);
        all.into_iter().find(|found| found.check == check).unwrap()
    }

    #[test]
    fn a_good_server_has_nothing_against_it() {
        let configured = [("min-replicas-to-write", "1"), ("appendfsync", "always")];
        for check in ["server", "role", "eviction", "persistence", "replicas", "memory"] {
            assert_eq!(found(GOOD, &configured, check).level, Level::Ok, "{check}");
        }
    }

    #[test]
    fn what_forgets_locks_is_reported_with_the_remedy() {
        for (from, to, check, level) in [
            ("7.0.15", "6.0.16", "server", Level::Fail),
            ("role:master", "role:slave", "role", Level::Fail),
            ("noeviction", "volatile-ttl", "eviction", Level::Fail),
            ("aof_enabled:1", "aof_enabled:0", "persistence", Level::Warn),
            ("maxmemory:0", "maxmemory:5", "memory", Level::Warn),
        ] {
            let found = found(&GOOD.replace(from, to), &[], check);
            assert!(found.level == level && found.remedy.is_some(), "{found:?}");
        }
        assert_eq!(found(GOOD, &[("min-replicas-to-write", "0")], "replicas").level, Level::Warn);
        assert_eq!(found(GOOD, &[("appendfsync", "no")], "persistence").level, Level::Warn);
        let alone = GOOD.replace("connected_slaves:1", "connected_slaves:0");
        assert_eq!(found(&alone, &[("min-replicas-to-write", "1")], "replicas").level, Level::Fail);
        assert_eq!(found(&alone, &[("min-replicas-to-write", "0")], "replicas").level, Level::Ok);
        assert_eq!(missing_replicas(&Info::parse(GOOD), 1), None);
        assert_eq!(missing_replicas(&Info::parse(GOOD), 2).unwrap().level, Level::Fail);
        let snapshots = GOOD.replace("aof_enabled:1", "aof_enabled:0");
        assert!(found(&snapshots, &[("save", "3600 1")], "persistence").finding.contains("snapshots"));
    }

    #[test]
    fn clocks_count_against_each_other_only() {
        let level = |offsets: &[Option<f64>], ttl| clocks(offsets, Duration::from_millis(ttl)).level;
        assert_eq!(level(&[Some(100.0)], 30_000), Level::Ok);
        assert_eq!(level(&[Some(0.0), Some(0.1)], 30_000), Level::Ok);
        assert_eq!(level(&[Some(0.0), Some(0.1)], 500), Level::Warn, "a fifth of the ttl");
        assert_eq!(level(&[Some(0.0), Some(2.0)], 3_600_000), Level::Warn);
        assert_eq!(level(&[Some(0.0), None], 30_000), Level::Warn);
        let remedy = clocks(&[Some(0.0), Some(0.1)], Duration::from_millis(500)).remedy.unwrap();
        assert!(remedy.contains("a lock-delay of more than 0.100 s"), "{remedy}");
    }
}
