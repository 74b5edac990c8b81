//! What can go wrong with a cluster: who is missing, what its versions do to leases, what is full, what this user may do.
//!
//! `cluster` is about who belongs to it, `version` about what is known of versions, `database` and `disk` about where a
//! member keeps its data, `rights` about this user, `strays` about what lies among the locks and is none.

mod cluster;
mod database;
mod disk;
mod rights;
mod strays;
mod version;

use std::time::Duration;

use self::cluster::MemberStatus;
use self::rights::Auth;
use super::wire::Settings;
use super::wire::messages::{Member, MemberListRequest, MemberListResponse, StatusRequest, StatusResponse};
use super::{Check, EtcdStore, EtcdStoreBuilder};
use crate::Result;
use crate::net::Endpoint;
use crate::store::{Finding, Level, said_once};
use crate::url::StoreUrl;

/// Examines every member that the URL names. The store, if locks can be had there.
pub(super) async fn examine(url: &StoreUrl, within: Duration, findings: &mut Vec<Finding>) -> Option<EtcdStore> {
    let opened = EtcdStore::from_url(url).and_then(|builder| unasked(builder, within));
    let (builder, settings, store) = opened.map_err(|error| findings.push(Finding::failed("store", &error))).ok()?;
    let (auth, refused) = rights::log_in(&store, &builder).await;
    if let Some(refused) = refused {
        findings.push(refused);
        return None;
    }
    let statuses: Vec<MemberStatus> =
        store.0.calls.ask_each("/etcdserverpb.Maintenance/Status", StatusRequest {}, within).await;
    findings.extend(cluster::silent(&statuses));
    if statuses.iter().all(|(_, status)| status.is_err()) {
        return None;
    }
    let list = store.members().await;
    let mut found = members(&statuses, &list, auth, &store.0.waived);
    let works = !found.iter().any(|found| ["members", "alarm"].contains(&found.check) && found.level == Level::Fail);
    findings.append(&mut found);
    let all = statuses.iter().zip(builder.addresses());
    let here: Vec<_> = all.filter(|((_, status), _)| status.is_ok()).map(|(_, endpoint)| endpoint).collect();
    if !works {
        findings.extend(rights::who(auth, &builder));
        findings.extend(disks(&here, &settings, &[]).await);
        return None;
    }
    let waits = waits(&here, &settings).await;
    // This writes to every disk.
    let lease = rights::shortest_lease(&store).await;
    findings.extend(disks(&here, &settings, &waits).await);
    findings.extend(rights::who(auth, &builder));
    findings.push(lease);
    let prefix = url.common.prefix.as_deref().unwrap_or_default();
    let mut found = rights::examine(&store, prefix, within).await;
    let may = found.iter().all(|found| found.level != Level::Fail);
    findings.append(&mut found);
    if may {
        findings.extend(strays::look(&store).await);
    }
    may.then_some(store)
}

/// A store that answers sooner than anybody loses patience.
fn unasked(builder: EtcdStoreBuilder, within: Duration) -> Result<(EtcdStoreBuilder, Settings, EtcdStore)> {
    let timeout = builder.hosts.timeout.min(within);
    let builder = builder.timeout(timeout);
    let (settings, store) = (builder.settings()?, EtcdStore::unasked(&builder)?);
    Ok((builder, settings, store))
}

/// What they say of themselves.
fn members(statuses: &[MemberStatus], list: &[Member], auth: Auth, waived: &[Check]) -> Vec<Finding> {
    let (mut each, mut versions) = (Vec::new(), Vec::new());
    for (at, status) in answering(statuses) {
        each.push((
            at.clone(),
            version::look(&status.version, list.len().max(statuses.len()), waived.contains(&Check::Version)),
        ));
        if auth == Auth::On {
            each.extend(version::security(&status.version).map(|found| (at.clone(), found)));
        }
        versions.push(&status.version);
    }
    let mut found = said_once(each, versions.len());
    found.extend(versions.iter().any(|version| *version != versions[0]).then(|| {
        let finding = "the members have several versions, which is right during an upgrade only";
        Finding::warn("server", finding, "the same version on all of them")
    }));
    found.extend(cluster::look(statuses, list));
    let sizes = answering(statuses).map(|(at, status)| (at.clone(), database::size(status))).collect();
    found.extend(said_once(sizes, versions.len()));
    found.extend(database::alarms(answering(statuses).map(|(_, status)| status)));
    found
}

fn answering(statuses: &[MemberStatus]) -> impl Iterator<Item = (&String, &StatusResponse)> {
    statuses.iter().filter_map(|(at, status)| Some((at, status.as_ref().ok()?)))
}

/// How often each has waited for its disk.
async fn waits(here: &[Endpoint], settings: &Settings) -> Vec<Option<f64>> {
    let mut waits = Vec::with_capacity(here.len());
    for at in here {
        waits.push(disk::waits(at, settings.tls.as_ref(), settings.timeout).await);
    }
    waits
}

/// `waits`: what it was before something was written.
async fn disks(here: &[Endpoint], settings: &Settings, waits: &[Option<f64>]) -> Vec<Finding> {
    let mut found = Vec::with_capacity(here.len());
    for (number, at) in here.iter().enumerate() {
        let before = waits.get(number).copied().flatten();
        found.push((at.to_string(), disk::look(at, settings.tls.as_ref(), settings.timeout, before).await));
    }
    said_once(found, here.len())
}

impl EtcdStore {
    /// Those that the cluster knows, as one of them tells it; none where this user may not ask.
    async fn members(&self) -> Vec<Member> {
        let asked =
            self.0.calls.ask_each("/etcdserverpb.Cluster/MemberList", MemberListRequest {}, self.0.timeout).await;
        let statuses = asked.into_iter().find_map(|(_, list): (_, Result<MemberListResponse, _>)| list.ok());
        statuses.map(|list| list.members).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(at: &str, version: &str) -> MemberStatus {
        let status = StatusResponse { version: version.to_owned(), leader: 1, ..StatusResponse::default() };
        (at.to_owned(), Ok(status))
    }

    #[test]
    fn members_of_several_versions_are_distinguished() {
        let found = members(
            &[status_of("a:1", "3.6.16"), status_of("b:2", "3.6.4"), status_of("c:3", "3.6.16")],
            &[],
            Auth::Off,
            &[],
        );
        let servers: Vec<_> = found.iter().filter(|found| found.check == "server").collect();
        assert_eq!(servers[0].finding, "a:1: etcd 3.6.16");
        assert!(servers[1].level == Level::Warn && servers[1].finding.starts_with("b:2: etcd 3.6.4: it renews"));
        assert!(servers[3].level == Level::Warn && servers[3].finding.starts_with("the members have several versions"));
        let same = members(&[status_of("a:1", "3.6.16"), status_of("b:2", "3.6.16")], &[], Auth::Off, &[]);
        assert_eq!(same.iter().filter(|found| found.check == "server").count(), 1);
    }

    #[test]
    fn ways_around_the_rights_matter_where_there_are_rights() {
        let has =
            |auth| members(&[status_of("a:1", "3.6.13")], &[], auth, &[]).iter().any(|found| found.check == "security");
        assert!(has(Auth::On) && !has(Auth::Off));
    }
}
