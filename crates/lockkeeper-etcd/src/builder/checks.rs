//! The checks of a cluster before its use. A refusal names the remedy.

use crate::wire::messages::StatusResponse;
use crate::{Error, ErrorKind, Result};

/// Major, minor, patch.
pub(crate) type Version = (u32, u32, u32);

/// The oldest version that is used. Older versions end leases that are alive, or report wrong ttls.
#[doc(hidden)]
pub const OLDEST: Version = (3, 5, 14);
/// The version that each member should have.
pub(crate) const NEWER: &str = "the newest patch of etcd 3.6 or later on all members";
/// The remedy if one URL names two clusters.
pub(crate) const ONE_CLUSTER: &str = "the members of one cluster in the URL";
/// The remedy if members do not have the same data.
pub(crate) const NOT_CORRUPT: &str =
    "remove that member, and add it again without its data; then etcdctl alarm disarm";

/// A check that a caller can waive, by the name that the URL has for it (`unsafe=version`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// `layout`: no claim in another layout of lockkeeper holds or waits for a lock under this
    /// prefix. Claims of two layouts do not exclude each other.
    Layout,
    /// `members`: all members that answer are of one cluster, and have the same data. Each of two
    /// clusters has locks of its own.
    Members,
    /// `version`: etcd 3.5.14 or newer on each member that answers. An older member may end leases
    /// that are alive: two clients may then hold a lock.
    Version,
}

impl Check {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Layout, Self::Members, Self::Version];

    /// The name in a URL and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layout => "layout",
            Self::Members => "members",
            Self::Version => "version",
        }
    }

    /// The check of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// Refuses members on which locks cannot be relied on: each by its address, and what it says of
/// itself.
pub(crate) fn refuse(statuses: &[(&str, &StatusResponse)], waived: &[Check]) -> Result<()> {
    let applies = |check: Check| !waived.contains(&check);
    let old = statuses
        .iter()
        .find(|(_, status)| parse(&status.version).is_some_and(|version| version < OLDEST));
    if let Some((at, status)) = old.filter(|_| applies(Check::Version)) {
        let problem = format!("{at} is etcd {}, older than {}", status.version, name_of(OLDEST));
        return Err(refused(problem, Check::Version, NEWER));
    }
    if !applies(Check::Members) {
        return Ok(());
    }
    if let Some((one, other)) = of_two_clusters(statuses) {
        let problem =
            format!("{other} is of another cluster than {one}: each has locks of its own");
        return Err(refused(problem, Check::Members, ONE_CLUSTER));
    }
    if let Some((at, _)) = statuses.iter().find(|(_, status)| is_corrupt(status)) {
        let problem = format!(
            "{at} says that a member's data differ from those of the others (alarm CORRUPT)"
        );
        return Err(refused(problem, Check::Members, NOT_CORRUPT));
    }
    Ok(())
}

/// The first two members that are not of one cluster.
pub(crate) fn of_two_clusters<'a>(
    statuses: &[(&'a str, &StatusResponse)],
) -> Option<(&'a str, &'a str)> {
    let cluster = |status: &StatusResponse| status.header.map(|header| header.cluster_id);
    let (one, first) = statuses.first()?;
    statuses
        .iter()
        .find(|(_, status)| cluster(status) != cluster(first))
        .map(|(other, _)| (*one, *other))
}

fn is_corrupt(status: &StatusResponse) -> bool {
    status.errors.iter().any(|text| text.contains("alarm:CORRUPT"))
}

pub(crate) fn refused(problem: impl Into<String>, check: Check, remedy: &str) -> Error {
    Error::new(ErrorKind::Unsupported, problem).with_remedy(or_waive(remedy, check))
}

/// The remedy of a refusal.
pub(crate) fn or_waive(remedy: &str, check: Check) -> String {
    format!("{remedy}; or unsafe={} to go without this check", check.name())
}

/// `3.5.0-rc.1` is taken for 3.5.0.
pub(crate) fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// `3.5.14`
#[doc(hidden)]
pub fn name_of((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::ResponseHeader;

    fn status_of(version: &str, cluster_id: u64, errors: &[&str]) -> StatusResponse {
        let header = Some(ResponseHeader { cluster_id, member_id: 1, revision: 1, raft_term: 1 });
        let errors = errors.iter().map(|&text| text.to_owned()).collect();
        StatusResponse { header, version: version.to_owned(), errors, ..StatusResponse::default() }
    }

    #[test]
    fn settings_that_let_two_hold_are_refused_with_a_remedy_unless_waived() {
        let good = status_of("3.5.14", 7, &[]);
        for (other, check, problem) in [
            (status_of("3.5.13", 7, &[]), Check::Version, "b:2 is etcd 3.5.13, older than 3.5.14"),
            (status_of("3.4.99", 7, &[]), Check::Version, "b:2 is etcd 3.4.99, older than 3.5.14"),
            (status_of("3.6.0", 8, &[]), Check::Members, "b:2 is of another cluster than a:1"),
            (
                status_of("3.6.0", 7, &["memberID:13 alarm:CORRUPT "]),
                Check::Members,
                "b:2 says that a member's data differ",
            ),
        ] {
            let members = [("a:1", &good), ("b:2", &other)];
            let error = refuse(&members, &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().starts_with(problem), "{error}");
            assert!(
                error.remedy().unwrap().contains(&format!("unsafe={}", check.name())),
                "{error}"
            );
            assert!(refuse(&members, &[check]).is_ok(), "{check:?}");
            let others: Vec<_> = Check::ALL.into_iter().filter(|other| *other != check).collect();
            assert!(refuse(&members, &others).is_err(), "{check:?}");
        }
    }

    #[test]
    fn members_that_are_healthy_full_or_upgrading_are_used() {
        for other in [
            status_of("3.6.16", 7, &[]),
            status_of("tomorrow's", 7, &[]),
            status_of("3.5.14", 7, &["alarm:NOSPACE"]),
        ] {
            assert!(
                refuse(&[("a:1", &status_of("3.5.14", 7, &[])), ("b:2", &other)], &[]).is_ok(),
                "{other:?}"
            );
        }
        assert!(refuse(&[], &[]).is_ok());
    }

    #[test]
    fn every_check_has_its_name() {
        assert_eq!(Check::ALL.map(Check::name), crate::builder::URLS.checks);
        assert!(Check::ALL.iter().all(|check| Check::from_name(check.name()) == Some(*check)));
    }
}
