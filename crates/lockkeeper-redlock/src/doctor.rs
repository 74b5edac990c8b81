//! Examines the nodes: what each forgets and when, whether they are independent, and since when
//! their claims count.

use std::time::Duration;

use lockkeeper_core::Result;
use lockkeeper_core::kit::Examination;
use lockkeeper_core::store::{Finding, said_once};
use lockkeeper_core::time::wall_micros;
use lockkeeper_core::url::StoreUrl;
use lockkeeper_redis_client::checks::{Check, Info, NEVER_FORGET, refuse};
use lockkeeper_redis_client::wire::{Request, Value, text};

use crate::fault::{NodeFault, other_members};
use crate::layout::{BORN_KEY, Keeping, Kept, born, keep, kept};
use crate::nodes::Round;
use crate::opening::disagreement;
use crate::setup::Setup;
use crate::{RedlockStore, rights};

/// Clocks may differ by this: a token is as high as the clock of its node.
const APART: Duration = Duration::from_secs(1);

/// What a node says of itself.
struct Report {
    node: String,
    info: Info,
    /// How far its clock is ahead of ours, in µs.
    ahead: i128,
    /// The content of `lk:born`.
    born: Option<String>,
    /// What it has of its clients.
    kept: Kept,
}

/// Examines every node. Returns the store if locks can be acquired there.
pub(crate) async fn examine(url: &StoreUrl, examination: &mut Examination) -> Option<RedlockStore> {
    let mut setup = examination.known("store", Setup::from_url(url))?;
    let waived = setup.waived.clone();
    // The examination reports what these checks would refuse. Each connection tries the rights.
    setup.waived.extend([Check::Eviction, Check::Replica, Check::Version]);
    let address = setup.to_string();
    let store = examination.known("store", RedlockStore::connecting(setup, &address))?;
    let within = examination.within;
    let (reports, faults) = reports(&store, within).await;
    let nodes = store.0.nodes.len();
    let findings = &mut examination.findings;
    findings.push(quorum(nodes, store.0.nodes.quorum()));
    for (node, fault) in &faults {
        let error = crate::fault::too_few(&[(node.clone(), fault.clone())], 1, 1);
        let remedy = error.remedy().unwrap_or("a look whether the server runs").to_owned();
        findings.push(Finding::fail("node", fault.shown_at(node), remedy));
    }
    let each = reports.iter().flat_map(|report| {
        let found = report.findings(&waived, &store);
        found.into_iter().map(|found| (report.node.clone(), found))
    });
    findings.extend(said_once(each.collect(), nodes));
    findings.extend(together(&reports));
    let (max_keep, members) = (store.0.setup.max_keep, store.0.nodes.members());
    let refused = |report: &Report| {
        refuse(&report.info, &waived).is_err()
            || report.disagrees(max_keep).is_some()
            || report.others(members).is_some()
    };
    let usable = reports.iter().filter(|report| !refused(report)).count();
    let is_usable = usable >= store.0.nodes.quorum() && !reports.iter().any(refused);
    is_usable.then_some(store)
}

async fn reports(
    store: &RedlockStore,
    within: Duration,
) -> (Vec<Report>, Vec<(String, NodeFault)>) {
    store.0.nodes.ready(within).await;
    let mut round = Round::new();
    for node in 0..store.0.nodes.len() {
        let shared = store.clone();
        round.add(node, async move {
            let reporting = report(&shared, node);
            let silent = Err(NodeFault::Silent(within));
            shared.0.clock.timeout(within, reporting).await.unwrap_or(silent)
        });
    }
    let (mut reports, mut faults) = (Vec::new(), Vec::new());
    while let Some((node, report)) = round.next().await {
        match report {
            Ok(report) => reports.push((node, report)),
            Err(fault) => faults.push((store.0.nodes.shown(node).to_owned(), fault)),
        }
    }
    reports.sort_by_key(|(node, _)| *node);
    faults.sort_by(|(a, _), (b, _)| a.cmp(b));
    (reports.into_iter().map(|(_, report)| report).collect(), faults)
}

async fn report(store: &RedlockStore, node: usize) -> Result<Report, NodeFault> {
    let nodes = &store.0.nodes;
    let info = nodes.ask(node, |_| Request::command(&[b"INFO"])).await?;
    let born = nodes.ask(node, |_| Request::command(&[b"GET", BORN_KEY.as_bytes()])).await?;
    let keeping = |run: &str| keep(store.0.setup.max_keep, Keeping::Look, run);
    let kept = kept(&nodes.ask(node, keeping).await?).unwrap_or_default();
    let sent = wall_micros();
    let time = nodes.ask(node, |_| Request::command(&[b"TIME"])).await?;
    let ours = i128::from(sent.midpoint(wall_micros()));
    Ok(Report {
        node: nodes.shown(node).to_owned(),
        info: Info::of(&info).map_err(NodeFault::Refused)?,
        ahead: micros(&time).map_or(0, |theirs| theirs - ours),
        born: text(&born).map(str::to_owned),
        kept,
    })
}

/// The answer to `TIME`.
fn micros(time: &Value) -> Option<i128> {
    let Value::Array(parts) = time else { return None };
    let [seconds, micros] = &parts[..] else { return None };
    let number = |value| text(value)?.parse::<i128>().ok();
    Some(number(seconds)? * 1_000_000 + number(micros)?)
}

fn quorum(nodes: usize, quorum: usize) -> Finding {
    let words = format!("{nodes} servers, {quorum} are needed for each lock");
    match nodes % 2 {
        0 => Finding::ok(
            "quorum",
            format!("{words}: no more may fail than of {} servers", nodes - 1),
        ),
        _ => Finding::ok("quorum", words),
    }
}

impl Report {
    fn findings(&self, waived: &[Check], store: &RedlockStore) -> Vec<Finding> {
        let max_keep = store.0.setup.max_keep;
        let mut findings = vec![self.version()];
        let refused = refuse(&self.info, waived).err();
        findings.extend(refused.map(|error| Finding::failed("node", &error)));
        if waived.contains(&Check::Eviction)
            && let Some(policy) = self.info.evicts()
        {
            let problem = format!("maxmemory-policy {policy}; unsafe=eviction waives this check");
            findings.push(Finding::warn("eviction", problem, NEVER_FORGET));
        }
        if let Some(theirs) = self.disagrees(max_keep) {
            let (problem, remedy) = disagreement(&self.node, max_keep, theirs);
            findings.push(Finding::fail("max-keep", problem, remedy));
        }
        findings.push(match self.others(store.0.nodes.members()) {
            Some(theirs) => Finding::failed("members", &other_members(theirs).at(&self.node)),
            None => Finding::ok("members", "no client has other servers"),
        });
        findings.push(self.persistence());
        findings.push(self.counts(max_keep));
        findings
    }

    /// The `max-keep` of its clients, if it is another one than this.
    fn disagrees(&self, max_keep: Duration) -> Option<Duration> {
        self.kept.max_keep.filter(|theirs| *theirs != max_keep)
    }

    /// The servers of its clients, if they are others than these.
    fn others(&self, members: &str) -> Option<&str> {
        self.kept.members.as_deref().filter(|theirs| *theirs != members)
    }

    fn version(&self) -> Finding {
        let known = self.info.get("valkey_version").map(|version| ("Valkey", version));
        let (name, version) =
            known.unwrap_or_else(|| ("Redis", self.info.get("redis_version").unwrap_or("unknown")));
        Finding::ok("server", format!("{name} {version}"))
    }

    fn persistence(&self) -> Finding {
        match self.info.get("aof_enabled") {
            Some("1") => Finding::ok("persistence", "append-only file"),
            _ => Finding::ok(
                "persistence",
                "no append-only file: after a restart the server does not count for max-keep, and \
                 locks that are held then need the other servers",
            ),
        }
    }

    /// Since when the claims of the node count.
    fn counts(&self, max_keep: Duration) -> Finding {
        let run = self.info.get("run_id").unwrap_or_default();
        let now = wall_micros();
        let theirs = i128::from(now) + self.ahead;
        let left = match self.born.as_deref().map(born) {
            Some(Some((known, since))) if known == run && since == 0 => 0,
            Some(Some((known, since))) if known == run => {
                let until = i128::from(since) * 1000 + max_keep.as_micros() as i128;
                (until - theirs).max(0) / 1_000_000
            }
            _ => i128::from(max_keep.as_secs()),
        };
        match left {
            0 => Finding::ok("memory of locks", "it has forgotten no lock that may be held"),
            left => Finding::warn(
                "memory of locks",
                format!("it may have forgotten locks, and counts again in {left}s"),
                "again then; or lockkeeper doctor --init, if no lock is held",
            ),
        }
    }
}

/// What the nodes are together.
fn together(reports: &[Report]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if reports.is_empty() {
        return findings;
    }
    let mut versions: Vec<_> = reports.iter().map(|report| report.version().finding).collect();
    versions.sort();
    versions.dedup();
    if versions.len() > 1 {
        let words = format!("the servers differ: {}", versions.join(", "));
        findings.push(Finding::warn("versions", words, "one version on all servers"));
    }
    let ahead = || reports.iter().map(|report| report.ahead);
    let apart = ahead().max().unwrap_or_default() - ahead().min().unwrap_or_default();
    let seconds = apart as f64 / 1e6;
    findings.push(if apart > APART.as_micros() as i128 {
        let words = format!("the clocks of the servers are {seconds:.3} s apart");
        Finding::warn("clock", words, "a time service on each server")
    } else {
        Finding::ok("clock", "the clocks of the servers agree, to the second")
    });
    let fine = "a user with these rights is enough";
    findings.push(Finding::ok("rights", fine).with_remedy(rights::rule()));
    findings
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::store::Level;

    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    fn report(version: &str, ahead: i128, born: Option<&str>) -> Report {
        let info = format!("redis_version:{version}\r\nrun_id:r1\r\nmaxmemory_policy:noeviction");
        let born = born.map(str::to_owned);
        Report {
            node: "a:1".to_owned(),
            info: Info::parse(&info),
            ahead,
            born,
            kept: Kept::default(),
        }
    }

    fn level(findings: &[Finding], check: &str) -> Option<Level> {
        findings.iter().find(|found| found.check == check).map(|found| found.level)
    }

    #[test]
    fn servers_of_mixed_versions_and_clocks_that_differ_are_warned_about() {
        let same = together(&[report("7.0.15", 0, None), report("7.0.15", 900_000, None)]);
        assert_eq!((level(&same, "versions"), level(&same, "clock")), (None, Some(Level::Ok)));
        let mixed = together(&[report("7.0.15", -2_000_000, None), report("6.2.1", 0, None)]);
        assert_eq!(
            (level(&mixed, "versions"), level(&mixed, "clock")),
            (Some(Level::Warn), Some(Level::Warn))
        );
    }

    #[test]
    fn a_server_counts_for_its_run_from_a_life_after_its_first_contact_on() {
        let level = |born: Option<&str>| report("7.0.15", 0, born).counts(KEEP).level;
        let now = wall_micros() / 1000;
        assert_eq!(level(None), Level::Warn, "never seen");
        assert_eq!(level(Some("r1 0")), Level::Ok, "as after doctor --init");
        assert_eq!(level(Some(&format!("r1 {}", now - 61_000))), Level::Ok);
        assert_eq!(level(Some(&format!("r1 {}", now - 30_000))), Level::Warn);
        assert_eq!(level(Some("r0 0")), Level::Warn, "another run");
    }

    #[test]
    fn an_even_number_of_servers_is_said_to_be_no_better() {
        assert!(quorum(4, 3).finding.ends_with("no more may fail than of 3 servers"));
        assert_eq!(quorum(5, 3).finding, "5 servers, 3 are needed for each lock");
    }
}
