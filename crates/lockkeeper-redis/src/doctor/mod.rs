//! What can go wrong with a server: what it forgets and when, who takes over, what this user may do there.

mod rights;
mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use super::builder::Topology;
use super::checks::Info;
use super::wire::{Endpoint, Link, Request};
use super::{Check, RedisStore, RedisStoreBuilder, fault};
use crate::duration::format_duration;
use crate::store::{Finding, said_once};
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{ErrorKind, Result};

/// Of a keeper that is not told another one.
const TTL: Duration = Duration::from_secs(30);

/// Examines every master. The store, if it could be opened and locks can be relied on there.
pub(super) async fn examine(url: &StoreUrl, within: Duration, findings: &mut Vec<Finding>) -> Option<RedisStore> {
    let builder = RedisStore::from_url(url).map_err(|error| findings.push(Finding::failed("store", &error))).ok()?;
    // What is refused otherwise is what is to be examined.
    let lenient = Check::ALL.into_iter().fold(builder.clone(), |builder, check| builder.allow(check));
    let opened = Clock::boot().timeout(within, lenient.connect()).await;
    let store = match opened {
        Some(Ok(store)) => store,
        Some(Err(error)) if error.kind() == ErrorKind::Denied && error.message().contains("NOPERM") => {
            let rule = match error.message().contains("'sentinel") {
                true => rights::SENTINEL_RULE.to_owned(),
                false => rights::rule(&builder, builder.topology == Topology::Cluster),
            };
            findings.push(Finding::fail("rights", error.message(), rule));
            return None;
        }
        Some(Err(error)) => {
            findings.push(Finding::failed("open", &error));
            return None;
        }
        None => {
            let problem = format!("{url} did not answer within {}", format_duration(within));
            findings.push(Finding::fail("open", problem, "check that the server runs and can be reached from here"));
            return None;
        }
    };
    let usable = servers(&store, &builder, url.common.ttl.unwrap_or(TTL), findings).await;
    let prefix = url.common.prefix.as_deref().unwrap_or_default();
    findings.push(rights::examine(&store, &builder, prefix, within).await);
    if matches!(builder.topology, Topology::Sentinel(_)) {
        let listed =
            Finding::ok("sentinels", "the Sentinels name the master; a user of theirs needs these rights only");
        findings.push(listed.with_remedy(rights::SENTINEL_RULE));
    }
    usable.then_some(store)
}

/// Whether all of them can be used.
async fn servers(store: &RedisStore, builder: &RedisStoreBuilder, ttl: Duration, findings: &mut Vec<Finding>) -> bool {
    let waived = &builder.waived;
    let (mut all, mut clocks, mut usable) = (Vec::new(), Vec::new(), true);
    let masters = store.0.servers.masters();
    for link in &masters {
        let at = link.endpoint().to_string();
        match info(link).await {
            Ok(info) => {
                usable &= super::checks::refuse(&info, waived).is_ok();
                for replica in replicas(&info) {
                    clocks.push(match link.beside_at(replica).await {
                        Ok(replica) => offset(&replica).await,
                        Err(_) => None,
                    });
                }
                let configured = configured(link).await;
                let missing = server::missing_replicas(&info, builder.min_replicas);
                usable &= missing.is_none();
                let found = server::look(&info, &configured, waived).into_iter().chain(missing);
                all.extend(found.map(|found| (at.clone(), found)));
            }
            Err(error) => all.push((at, Finding::failed("server", &error))),
        }
        clocks.push(offset(link).await);
    }
    findings.extend(said_once(all, masters.len()));
    findings.push(server::clocks(&clocks, ttl));
    usable
}

/// Where the replicas of a master are.
fn replicas(info: &Info) -> Vec<Endpoint> {
    let listed = (0..).map_while(|number| info.get(&format!("slave{number}")));
    let endpoint = |listed: &str| {
        let part = |name: &str| listed.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        Some(Endpoint { host: part("ip")?.to_owned(), port: part("port")?.parse().ok()? })
    };
    listed.filter_map(endpoint).collect()
}

async fn info(link: &Link) -> Result<Info> {
    Info::of(&link.send(Request::command(&[b"INFO"])).await.map_err(fault::of)?)
}

/// What `CONFIG` says, as far as this user may ask.
async fn configured(link: &Link) -> BTreeMap<String, String> {
    let mut configured = BTreeMap::new();
    for setting in ["min-replicas-to-write", "appendfsync", "save"] {
        let asked = link.send(Request::command(&[b"CONFIG", b"GET", setting.as_bytes()])).await;
        if let Some(value) = asked.ok().and_then(server::setting) {
            configured.insert(setting.to_owned(), value);
        }
    }
    configured
}

/// How far its clock is ahead of ours, in seconds.
async fn offset(link: &Link) -> Option<f64> {
    let sent = crate::time::wall_micros();
    let time = server::time(link.send(Request::command(&[b"TIME"])).await.ok()?)?;
    let now = crate::time::wall_micros();
    // The answer was made somewhere between.
    let ours = (sent + now) / 2;
    let micros = i64::try_from(time).ok()? - i64::try_from(ours).ok()?;
    Some(std::time::Duration::from_micros(micros.unsigned_abs()).as_secs_f64() * f64::from(micros.signum() as i32))
}
