//! What a member has stored, how much more it may store, and what it warns of.

use std::collections::BTreeSet;

use lockkeeper_core::kit::{fail, ok, warn};

use crate::builder::checks::{Check, NOT_CORRUPT, or_waive};
use crate::store::Finding;
use crate::wire::messages::StatusResponse;

/// A database that is fuller than this may refuse the next lock.
const FULL: f64 = 0.8;
/// Below this share of it in use, it need not be so large.
const HOLLOW: f64 = 0.5;

/// How full it is.
pub(super) fn size(status: &StatusResponse) -> Finding {
    let (size, used) = (status.db_size as f64, status.db_size_in_use as f64);
    let size_and_use = format!("{}, {} in use", bytes(size), bytes(used));
    let quota = status.db_size_quota;
    match quota {
        0 => ok(format!("{size_and_use}; etcd reports its quota from 3.6 on (2.1 GB by default)")),
        ..0 => ok(format!("{size_and_use}; no quota")),
        _ if size <= FULL * quota as f64 => {
            ok(format!("{size_and_use}; quota {}", bytes(quota as f64)))
        }
        _ => {
            let finding =
                format!("{size_and_use}; at {} etcd takes no more locks", bytes(quota as f64));
            warn(finding, if used < HOLLOW * size { "etcdctl defrag" } else { ROOM })
        }
    }
}

const ROOM: &str = "etcdctl compact and defrag, and --auto-compaction-retention; or a higher --quota-backend-bytes";

/// The alarms, which each member reports of all members.
pub(super) fn alarms<'a>(size_and_use: impl Iterator<Item = &'a StatusResponse>) -> Vec<Finding> {
    let raised: BTreeSet<_> =
        size_and_use.flat_map(|status| &status.errors).filter_map(|text| kind(text)).collect();
    let finding = |alarm: &str| match alarm {
        "NOSPACE" => fail(
            "NOSPACE: a member's database is full, and no lock can be acquired",
            format!("{ROOM}; then etcdctl alarm disarm"),
        ),
        "CORRUPT" => fail(
            "CORRUPT: a member's data differ from those of the others, and no lock can be acquired",
            or_waive(NOT_CORRUPT, Check::Members),
        ),
        other => fail(format!("{other}: etcd has raised this alarm"), "etcdctl alarm list"),
    };
    raised.into_iter().map(finding).collect()
}

/// `memberID:1234 alarm:NOSPACE`
fn kind(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix("alarm:"))
}

fn bytes(count: f64) -> String {
    let (unit, name) = match count {
        1e9.. => (1e9, "GB"),
        1e6.. => (1e6, "MB"),
        _ => (1e3, "kB"),
    };
    format!("{:.1} {name}", count / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn status(size: i64, used: i64, quota: i64) -> StatusResponse {
        StatusResponse {
            db_size: size,
            db_size_in_use: used,
            db_size_quota: quota,
            ..StatusResponse::default()
        }
    }

    #[test]
    fn a_database_that_is_nearly_full_is_reported_with_what_makes_room() {
        let (mb, gb) = (1_000_000, 1_000_000_000);
        let well = size(&status(20 * mb, 5 * mb, 2 * gb));
        assert_eq!(
            (well.level, well.finding.as_str()),
            (Level::Ok, "20.0 MB, 5.0 MB in use; quota 2.0 GB")
        );
        let full = size(&status(9 * mb, 8 * mb, 10 * mb));
        assert!(full.level == Level::Warn && full.remedy.as_deref() == Some(ROOM), "{full:?}");
        assert_eq!(size(&status(9 * mb, mb, 10 * mb)).remedy.as_deref(), Some("etcdctl defrag"));
        assert!(size(&status(9, 9, 0)).finding.contains("from 3.6 on"));
        assert!(size(&status(9, 9, -1)).finding.ends_with("no quota"));
    }

    #[test]
    fn each_alarm_is_reported_once() {
        let size_and_use =
            ["etcdserver: no leader", "memberID:12 alarm:NOSPACE ", "memberID:13 alarm:CORRUPT "];
        let status = StatusResponse {
            errors: size_and_use.map(str::to_owned).to_vec(),
            ..StatusResponse::default()
        };
        let found = alarms([&status, &status].into_iter());
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|found| found.level == Level::Fail && found.remedy.is_some()));
        assert!(alarms([&StatusResponse::default()].into_iter()).is_empty());
    }
}
