//! What can go wrong with a cluster: missing members, what its versions do to leases, what is full,
//! what this user may do.
//!
//! `cluster` is about the members, `version` about the known mistakes of versions, `database` and
//! `disk` about where a member keeps its data, `rights` about this user, `strays` about keys among
//! the locks that are no claims.

mod cluster;
mod database;
mod disk;
mod rights;
mod strays;
mod version;

use std::future::ready;
use std::time::Duration;

use lockkeeper_core::kit::{Check as Row, Examination, checks, named};

use self::cluster::MemberStatus;
use self::rights::Auth;
use super::wire::messages::{
    Member, MemberListRequest, MemberListResponse, StatusRequest, StatusResponse,
};
use super::wire::{Settings, all};
use super::{Check, EtcdStore, EtcdStoreBuilder};
use crate::Result;
use crate::net::Endpoint;
use crate::store::{Finding, Level, said_once};
use crate::time::Clock;
use crate::url::StoreUrl;

/// The checks of a cluster that cannot acquire a lock.
static MEMBERS: [Row<Seen>; 2] = checks! {
    ("disk", |seen| seen.disks(), |disks| disks),
    ("auth", |seen| ready(Ok(rights::who(seen.auth, &seen.builder))), |who| who),
};

/// The further checks of a cluster that can.
static RIGHTS: [Row<Seen>; 2] = checks! {
    ("lease", |seen| seen.store.shortest_lease(), |lasts| Some(rights::lease(lasts))),
    ("rights", |seen| rights::examine(&seen.store, &seen.prefix, seen.within), |found| found),
};

/// What a user with all rights can look at.
static KEYS: [Row<Seen>; 2] = checks! {
    ("layout", |seen| seen.store.check_layout(), |()| None),
    ("keys", |seen| strays::found(&seen.store), |found| found),
};

/// A cluster of which a member answers.
struct Seen {
    store: EtcdStore,
    builder: EtcdStoreBuilder,
    settings: Settings,
    prefix: String,
    within: Duration,
    auth: Auth,
    /// The members that answer.
    here: Vec<Endpoint>,
    works: bool,
}

/// Examines every member that the URL names. The store, if locks can be had there.
pub(super) async fn examine(url: &StoreUrl, examination: &mut Examination) -> Option<EtcdStore> {
    let within = examination.within;
    let opened = EtcdStore::from_url(url).and_then(|builder| unasked(builder, within));
    let (builder, settings, store) = examination.known("store", opened)?;
    let log_in = Clock::boot().timeout(within, rights::log_in(&store, &builder)).await;
    let (auth, refused) = log_in.unwrap_or((Auth::Unknown, None));
    if let Some(refused) = refused {
        examination.findings.push(refused);
        return None;
    }
    let statuses: Vec<MemberStatus> =
        store.0.calls.ask_each("/etcdserverpb.Maintenance/Status", StatusRequest {}, within).await;
    examination.findings.extend(cluster::silent(&statuses));
    let here = statuses.iter().zip(builder.addresses());
    let here: Vec<_> =
        here.filter(|((_, status), _)| status.is_ok()).map(|(_, endpoint)| endpoint).collect();
    if here.is_empty() {
        return None;
    }
    let found = members(&statuses, &store.members().await, auth, &store.0.waived);
    let works = !found
        .iter()
        .any(|found| ["members", "alarm"].contains(&found.check) && found.level == Level::Fail);
    examination.findings.extend(found);
    let prefix = url.common.prefix.clone().unwrap_or_default();
    let seen = Seen { store, builder, settings, prefix, within, auth, here, works };
    examination.run(&MEMBERS, &seen).await;
    if !works {
        return None;
    }
    let known = examination.findings.len();
    examination.run(&RIGHTS, &seen).await;
    let refuses = |found: &Finding| found.check != "lease" && found.level == Level::Fail;
    if examination.findings.iter().skip(known).any(refuses) {
        return None;
    }
    examination.run(&KEYS, &seen).await;
    Some(seen.store)
}

/// A store that answers within the time of the examination.
fn unasked(
    builder: EtcdStoreBuilder,
    within: Duration,
) -> Result<(EtcdStoreBuilder, Settings, EtcdStore)> {
    let timeout = builder.hosts.timeout.min(within);
    let builder = builder.timeout(timeout);
    let (settings, store) = (builder.settings()?, EtcdStore::unasked(&builder)?);
    Ok((builder, settings, store))
}

/// What they say of themselves.
fn members(
    statuses: &[MemberStatus],
    list: &[Member],
    auth: Auth,
    waived: &[Check],
) -> Vec<Finding> {
    let answers: Vec<_> = answering(statuses).collect();
    let (count, waives) = (list.len().max(statuses.len()), waived.contains(&Check::Version));
    let versions = answers.iter().flat_map(|(at, StatusResponse { version, .. })| {
        let security = version::security(version).filter(|_| auth == Auth::On);
        [Some(version::look(version, count, waives)), security]
            .into_iter()
            .flatten()
            .map(|found| ((*at).clone(), found))
    });
    let mut found = said_once(versions.collect(), answers.len());
    found.extend(answers.iter().any(|(_, status)| status.version != answers[0].1.version).then(
        || {
            let finding =
                "the members have several versions, which is right during an upgrade only";
            Finding::warn("server", finding, "the same version on all of them")
        },
    ));
    found.extend(named("members", cluster::look(statuses, list)));
    let sizes =
        answers.iter().map(|(at, status)| ((*at).clone(), database::size(status))).collect();
    found.extend(named("database", said_once(sizes, answers.len())));
    found.extend(named("alarm", database::alarms(answers.iter().map(|(_, status)| *status))));
    found
}

fn answering(statuses: &[MemberStatus]) -> impl Iterator<Item = (&String, &StatusResponse)> {
    statuses.iter().filter_map(|(at, status)| Some((at, status.as_ref().ok()?)))
}

impl Seen {
    /// The speed of each disk, which shows while it is written to.
    async fn disks(&self) -> Result<Vec<Finding>> {
        // Nothing depends on the answers: two silences are shorter than the probe may be.
        let (tls, timeout) =
            (self.settings.tls.as_ref(), self.settings.timeout.min(self.within / 3));
        let waits = all(self.here.iter().map(|at| disk::waits(at, tls, timeout))).await;
        let written = self.works && self.store.shortest_lease().await.is_ok();
        let looked = self.here.iter().zip(waits).map(|(at, before)| async move {
            (at.to_string(), disk::look(at, tls, timeout, before.filter(|_| written)).await)
        });
        Ok(said_once(all(looked).await, self.here.len()))
    }
}

impl EtcdStore {
    /// The members of the cluster, as one of the members lists them; none if this user may not list
    /// them.
    async fn members(&self) -> Vec<Member> {
        let asked = self
            .0
            .calls
            .ask_each("/etcdserverpb.Cluster/MemberList", MemberListRequest {}, self.0.timeout)
            .await;
        let statuses =
            asked.into_iter().find_map(|(_, list): (_, Result<MemberListResponse, _>)| list.ok());
        statuses.map(|list| list.members).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(at: &str, version: &str) -> MemberStatus {
        let status =
            StatusResponse { version: version.to_owned(), leader: 1, ..StatusResponse::default() };
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
        assert!(
            servers[1].level == Level::Warn
                && servers[1].finding.starts_with("b:2: etcd 3.6.4: it renews")
        );
        assert!(
            servers[3].level == Level::Warn
                && servers[3].finding.starts_with("the members have several versions")
        );
        let same =
            members(&[status_of("a:1", "3.6.16"), status_of("b:2", "3.6.16")], &[], Auth::Off, &[]);
        assert_eq!(same.iter().filter(|found| found.check == "server").count(), 1);
    }

    #[test]
    fn ways_around_the_rights_matter_where_there_are_rights() {
        let has = |auth| {
            members(&[status_of("a:1", "3.6.13")], &[], auth, &[])
                .iter()
                .any(|found| found.check == "security")
        };
        assert!(has(Auth::On) && !has(Auth::Off));
    }
}
