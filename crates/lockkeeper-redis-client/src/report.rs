//! The reports of the servers about themselves, for `doctor`.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::kit::{Examination, Row, fail, judged, ok, warn, warn_if};
use lockkeeper_core::store::{Finding, Level, said_once};

use crate::checks::{self, Check, Info};
use crate::setup::Setup;
use crate::url::StoreUrl;
use crate::wire::{Endpoint, Link, Request, Value};
use crate::{Result, fault};

/// The ttl of a keeper that sets no other.
const TTL: Duration = Duration::from_secs(30);
/// Clocks may differ by this part of the ttl in use, and by at most so many seconds. If another
/// server takes over, a lock ends earlier by the difference, while its holder still relies on it.
const PART_APART: f64 = 0.1;
const SECONDS_APART: f64 = 1.0;
/// A server that is fuller than this may refuse the next lock.
const FULL: f64 = 0.9;

/// All checks of a server but the check of its clock.
static CHECKS: [Row<ServerReport>; 7] = [
    ("server", |server| Some(server.judged(Check::Version, version(&server.info)))),
    ("role", |server| Some(server.judged(Check::Replica, role(&server.info)))),
    ("eviction", |server| Some(server.judged(Check::Eviction, eviction(&server.info)))),
    ("persistence", |server| Some(persistence(server))),
    ("replicas", replicas),
    ("memory", |server| memory(&server.info)),
    ("replicas", missing_replicas),
];

/// What all servers of a store report.
#[derive(Debug)]
pub struct Servers {
    /// Whether locks can be relied on at each of them.
    pub usable: bool,
    /// How far the clocks of the replicas are ahead of ours.
    replicas: Vec<Option<f64>>,
}

impl Servers {
    /// Examines all masters. `waits`: the store may wait for replicas.
    pub async fn examine(
        masters: &[Link],
        setup: &Setup,
        waits: bool,
        examination: &mut Examination,
    ) -> Self {
        let (mut all, mut seen) = (Vec::new(), Self { usable: true, replicas: Vec::new() });
        for link in masters {
            let found = match ServerReport::of(link, setup, waits).await {
                Ok(server) => {
                    seen.usable &= server.is_usable();
                    for replica in server.listed_replicas() {
                        let replica = link.beside_at(replica).await;
                        seen.replicas.push(match replica {
                            Ok(replica) => offset(&replica).await,
                            Err(_) => None,
                        });
                    }
                    server.findings()
                }
                Err(error) => vec![Finding::failed("server", &error)],
            };
            all.extend(found.into_iter().map(|found| (link.endpoint().to_string(), found)));
        }
        examination.findings.extend(said_once(all, masters.len()));
        seen
    }

    /// Compares the clocks of all servers, and of their replicas. The URL may have a ttl.
    pub async fn clocks(&self, masters: &[Link], url: &StoreUrl) -> Finding {
        let mut offsets = self.replicas.clone();
        for link in masters {
            offsets.push(offset(link).await);
        }
        clocks(&offsets, url.common.ttl.unwrap_or(TTL))
    }
}

/// How far the server's clock is ahead of ours, in seconds.
async fn offset(link: &Link) -> Option<f64> {
    let sent = crate::time::wall_micros();
    let time = time(link.send(Request::command(&[b"TIME"])).await.ok()?)?;
    let now = crate::time::wall_micros();
    // The server read its clock between these two moments.
    let ours = (sent + now) / 2;
    let micros = i64::try_from(time).ok()? - i64::try_from(ours).ok()?;
    Some(
        Duration::from_micros(micros.unsigned_abs()).as_secs_f64()
            * f64::from(micros.signum() as i32),
    )
}

/// A server, as it describes itself.
#[derive(Default)]
struct ServerReport {
    info: Info,
    /// The answers of `CONFIG`, as far as this user may ask.
    configured: BTreeMap<&'static str, String>,
    waived: Vec<Check>,
    min_replicas: u32,
    /// Whether the store may wait for replicas.
    waits: bool,
}

impl ServerReport {
    async fn of(link: &Link, setup: &Setup, waits: bool) -> Result<Self> {
        let info = Info::of(&link.send(Request::command(&[b"INFO"])).await.map_err(fault::of)?)?;
        let mut configured = BTreeMap::new();
        for name in ["min-replicas-to-write", "appendfsync", "save"] {
            let asked = link.send(Request::command(&[b"CONFIG", b"GET", name.as_bytes()])).await;
            configured.extend(asked.ok().and_then(setting).map(|value| (name, value)));
        }
        Ok(Self {
            info,
            configured,
            waived: setup.waived.clone(),
            min_replicas: setup.min_replicas,
            waits,
        })
    }

    fn findings(&self) -> Vec<Finding> {
        judged(&CHECKS, self)
    }

    fn is_usable(&self) -> bool {
        checks::refuse(&self.info, &self.waived).is_ok() && missing_replicas(self).is_none()
    }

    /// The addresses of the replicas of a master.
    fn listed_replicas(&self) -> Vec<Endpoint> {
        let listed = (0..).map_while(|number| self.info.get(&format!("slave{number}")));
        let endpoint = |listed: &str| {
            let part = |name: &str| {
                listed.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
            };
            Some(Endpoint { host: part("ip")?.to_owned(), port: part("port")?.parse().ok()? })
        };
        listed.filter_map(endpoint).collect()
    }

    fn configured(&self, name: &str) -> Option<&str> {
        self.configured.get(name).map(String::as_str)
    }

    /// Gives a failed check the remedy of its refusal. A waived check is only a warning.
    fn judged(&self, check: Check, finding: Finding) -> Finding {
        if finding.level != Level::Fail {
            return finding;
        }
        if self.waived.contains(&check) {
            let waived = format!("{}; unsafe={} waives this check", finding.finding, check.name());
            return warn(waived, finding.remedy.unwrap_or_default());
        }
        let others: Vec<_> = Check::ALL.into_iter().filter(|other| *other != check).collect();
        match checks::refuse(&self.info, &others)
            .map_err(|refused| refused.remedy().map(str::to_owned))
        {
            Err(Some(remedy)) => finding.with_remedy(remedy),
            _ => finding,
        }
    }
}

fn version(info: &Info) -> Finding {
    let name = match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, version) => format!("Redis {}", version.unwrap_or("of an unknown version")),
    };
    match info.is_old() {
        true => fail(format!("{name} is older than 6.2"), "a newer server"),
        false => ok(name),
    }
}

fn role(info: &Info) -> Finding {
    match info.is_replica() {
        true => fail("a replica: it takes no locks", "the address of its master"),
        false => ok("master"),
    }
}

fn eviction(info: &Info) -> Finding {
    match (info.evicts(), info.get("maxmemory_policy")) {
        (Some(policy), _) => fail(
            format!("maxmemory-policy {policy}: the server deletes locks to make room"),
            checks::NEVER_FORGET,
        ),
        (None, Some(policy)) => ok(format!("maxmemory-policy {policy}")),
        (None, None) => warn(
            "the server does not report its maxmemory-policy",
            "check the settings of the server",
        ),
    }
}

fn persistence(server: &ServerReport) -> Finding {
    let has_log = server.info.get("aof_enabled") == Some("1");
    let finding = match (has_log, server.configured("appendfsync"), server.configured("save")) {
        (true, Some("always"), _) => {
            return ok("append-only file, every write on disk before it is answered");
        }
        (true, Some("no"), _) => "append-only file, written when the system decides",
        (true, ..) => return ok("append-only file: a power cut may lose the last second"),
        (_, _, Some("")) => "none: a restart loses all locks, also held locks",
        (_, _, Some(_)) => {
            "snapshots only: a restart brings released locks back, and loses all locks since the last snapshot"
        }
        (_, _, None) => {
            "no append-only file: a restart loses held locks (this user may not ask about snapshots)"
        }
    };
    warn(finding, "appendonly yes, and appendfsync always where no lock may be lost to a power cut")
}

fn replicas(server: &ServerReport) -> Option<Finding> {
    let replicas: u32 =
        server.info.get("connected_slaves").filter(|_| !server.info.is_replica())?.parse().ok()?;
    let asynchronous = "a failover may lose the last locks";
    Some(match (replicas, server.configured("min-replicas-to-write")) {
        (0, Some(needed)) if needed != "0" => fail(
            format!("none, and min-replicas-to-write {needed}: the server refuses all writes"),
            "more replicas, or CONFIG SET min-replicas-to-write 0",
        ),
        (0, _) => ok("none: no server takes over when this one fails"),
        (_, Some("0")) => warn(
            format!(
                "{replicas}, and min-replicas-to-write 0: without its replicas the server still grants locks"
            ),
            match server.waits {
                true => "CONFIG SET min-replicas-to-write 1; and min-replicas=1 in the URL",
                false => "CONFIG SET min-replicas-to-write 1",
            },
        ),
        (_, Some(needed)) => {
            ok(format!("{replicas}, and min-replicas-to-write {needed}; {asynchronous}"))
        }
        (_, None) => ok(format!("{replicas}; {asynchronous}")),
    })
}

/// The finding if the server has fewer replicas than a grant needs.
fn missing_replicas(server: &ServerReport) -> Option<Finding> {
    let (replicas, needed): (u32, _) =
        (server.info.get("connected_slaves")?.parse().ok()?, server.min_replicas);
    (replicas < needed).then(|| {
        let problem =
            format!("{replicas}, and min-replicas={needed} in the URL: no lock can be acquired");
        fail(problem, "more replicas, or a lower min-replicas in the URL")
    })
}

fn memory(info: &Info) -> Option<Finding> {
    let number = |field: &str| info.get(field).and_then(|value| value.parse::<f64>().ok());
    let (used, most) = (number("used_memory")?, number("maxmemory")?);
    if most == 0.0 {
        return Some(ok("no limit of its own"));
    }
    let finding = format!("{:.0} % of maxmemory is used", 100.0 * used / most);
    Some(warn_if(used / most > FULL, finding, "a higher maxmemory: a full server refuses locks"))
}

/// Compares the clocks of all servers and replicas with each other, and with ours.
fn clocks(offsets: &[Option<f64>], ttl: Duration) -> Finding {
    let known: Vec<f64> = offsets.iter().copied().flatten().collect();
    let [low, high] =
        [f64::min, f64::max].map(|pick| known.iter().copied().reduce(pick).unwrap_or_default());
    if known.len() < offsets.len() {
        let remedy = "the right to use TIME, and a way from here to each replica";
        return warn("a server or a replica did not report its time", remedy);
    }
    let (apart, ttl) = (high - low, ttl.as_secs_f64());
    if apart > SECONDS_APART.min(PART_APART * ttl) {
        let finding = format!("the servers' clocks are {apart:.3} s apart, at a ttl of {ttl} s");
        let remedy = format!(
            "a time service on each server, and a lock-delay of more than {apart:.3} s until then: a lock that moves \
             to a server whose clock is ahead expires so much too early"
        );
        return warn(finding, remedy);
    }
    let clocks = match offsets.len() {
        1 => "the server's clock",
        _ => "the servers' clocks agree with each other, and the clock of each server",
    };
    // No lock depends on our clock. The difference helps readers of logs.
    let (off, side) = if high > -low { (high, "ahead of") } else { (-low, "behind") };
    ok(match off > SECONDS_APART {
        true => format!(
            "{clocks} is {off:.1} s {side} this machine's, which does no harm: leases and tokens follow the server's clock"
        ),
        false => format!("{clocks} agrees with this machine's, to the second"),
    })
}

/// The value in the answer to `CONFIG GET`.
fn setting(answer: Value) -> Option<String> {
    let value = match answer {
        Value::Map(pairs) => pairs.into_iter().next()?.1,
        Value::Array(words) => words.into_iter().nth(1)?,
        _ => return None,
    };
    redis::from_redis_value(value).ok()
}

/// The answer to `TIME`, in µs.
fn time(answer: Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(answer).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\n\
        used_memory:5\r\naof_enabled:1\r\nconnected_slaves:1\r\n";

    fn found(text: &str, configured: &[(&'static str, &str)], check: &str) -> Finding {
        let configured =
            configured.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let server =
            ServerReport { info: Info::parse(text), configured, ..ServerReport::default() };
        server.findings().into_iter().find(|found| found.check == check).unwrap()
    }

    fn needs(min_replicas: u32) -> Option<Finding> {
        missing_replicas(&ServerReport {
            info: Info::parse(GOOD),
            min_replicas,
            ..ServerReport::default()
        })
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
        assert_eq!(needs(1), None);
        assert_eq!(needs(2).unwrap().level, Level::Fail);
        let snapshots = GOOD.replace("aof_enabled:1", "aof_enabled:0");
        assert!(
            found(&snapshots, &[("save", "3600 1")], "persistence").finding.contains("snapshots")
        );
    }

    #[test]
    fn clocks_count_against_each_other_only() {
        let says = |offsets: &[f64]| {
            let offsets: Vec<_> = offsets.iter().copied().map(Some).collect();
            clocks(&offsets, Duration::from_secs(30)).finding
        };
        assert_eq!(says(&[0.1]), "the server's clock agrees with this machine's, to the second");
        let harmless = "which does no harm: leases and tokens follow the server's clock";
        assert_eq!(
            says(&[-2.04, -2.0]),
            format!(
                "the servers' clocks agree with each other, and the clock of each server is 2.0 s behind this machine's, {harmless}"
            )
        );
        assert_eq!(
            says(&[60.0]),
            format!("the server's clock is 60.0 s ahead of this machine's, {harmless}")
        );
        let level =
            |offsets: &[Option<f64>], ttl| clocks(offsets, Duration::from_millis(ttl)).level;
        assert_eq!(level(&[Some(100.0)], 30_000), Level::Ok);
        assert_eq!(level(&[Some(0.0), Some(0.1)], 30_000), Level::Ok);
        assert_eq!(level(&[Some(0.0), Some(0.1)], 500), Level::Warn, "a fifth of the ttl");
        assert_eq!(level(&[Some(0.0), Some(2.0)], 3_600_000), Level::Warn);
        assert_eq!(level(&[Some(0.0), None], 30_000), Level::Warn);
        let remedy = clocks(&[Some(0.0), Some(0.1)], Duration::from_millis(500)).remedy.unwrap();
        assert!(remedy.contains("a lock-delay of more than 0.100 s"), "{remedy}");
    }
}
