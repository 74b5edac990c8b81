//! What is known of a version: its mistakes with leases and locks, and ways around its rights.

use crate::doctor::Finding;

/// Major, minor, patch.
type Version = (u32, u32, u32);

/// A mistake, and where it is mended: one patch for each line of versions that had it.
struct Bug {
    what: &'static str,
    mended: &'static [Version],
}

/// With more than one member it ends leases that their holders have renewed: two may have a lock then.
const STALLED: Bug =
    Bug { what: "a leader that stood still ends leases that are alive", mended: &[(3, 4, 31), (3, 5, 13), (3, 6, 0)] };

/// These cost a holder its lock at worst.
const BUGS: [Bug; 3] = [
    Bug {
        what: "after a change of the leader it tells wrong lives of leases",
        mended: &[(3, 4, 32), (3, 5, 14), (3, 6, 0)],
    },
    Bug { what: "it renews leases that are revoked", mended: &[(3, 4, 38), (3, 5, 23), (3, 6, 5)] },
    Bug { what: "it may not find a lease that it has just granted", mended: &[(3, 4, 20), (3, 5, 3), (3, 6, 0)] },
];

const RIGHTS: Bug = Bug {
    what: "it lets users past their rights in known ways (CVE-2026-33413 and others)",
    mended: &[(3, 5, 33), (3, 6, 14), (3, 7, 1)],
};

const OLDEST: Version = (3, 4, 0);
/// Lines of versions up to this one get no mistakes mended any more.
const ENDED: Version = (3, 4, u32::MAX);
const NEWER: &str = "the newest patch of etcd 3.6 or later";

/// What is known of it in a cluster of so many members.
pub(super) fn look(text: &str, members: usize) -> Finding {
    let name = format!("etcd {text}");
    let Some(version) = parse(text) else { return Finding::ok("server", name) };
    if version < OLDEST {
        return Finding::fail("server", format!("{name} is older than 3.4"), NEWER);
    }
    let stalls = STALLED.is_in(version) && members > 1;
    let mut known: Vec<_> = BUGS.iter().filter(|bug| bug.is_in(version)).map(|bug| bug.what).collect();
    if stalls {
        known.insert(0, STALLED.what);
    }
    let ended = if version <= ENDED { ", which is at the end of its life" } else { "" };
    let finding = format!("{name}{ended}: {}", known.join("; "));
    match known.is_empty() {
        _ if stalls => Finding::fail("server", finding, NEWER),
        false => Finding::warn("server", finding, NEWER),
        true if !ended.is_empty() => Finding::warn("server", name + ended, NEWER),
        true => Finding::ok("server", name),
    }
}

/// What users can do there that they may not.
pub(super) fn security(text: &str) -> Option<Finding> {
    let remedy = "etcd 3.5.33, 3.6.14, 3.7.1, or later";
    let is_open = RIGHTS.is_in(parse(text)?);
    is_open.then(|| Finding::warn("security", format!("etcd {text}: {}", RIGHTS.what), remedy))
}

impl Bug {
    fn is_in(&self, version: Version) -> bool {
        let (major, minor, patch) = version;
        match self.mended.iter().find(|mended| (mended.0, mended.1) == (major, minor)) {
            Some(mended) => patch < mended.2,
            // Before all of them, or after.
            None => self.mended.first().is_some_and(|first| version < *first),
        }
    }
}

/// `3.5.0-rc.1` is taken for 3.5.0.
fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn level(version: &str, members: usize) -> Level {
        look(version, members).level
    }

    #[test]
    fn a_version_that_ends_leases_that_are_alive_does_not_do_for_several_members() {
        for version in ["3.4.23", "3.4.30", "3.5.0-rc.1", "3.5.12"] {
            assert_eq!((level(version, 1), level(version, 3)), (Level::Warn, Level::Fail), "{version}");
            assert!(look(version, 3).finding.contains(": a leader that stood still"), "{version}");
            assert!(!look(version, 1).finding.contains("stood still"), "{version}");
        }
        for version in ["3.4.31", "3.4.42", "3.5.13", "3.5.22", "3.6.4"] {
            assert_eq!(level(version, 3), Level::Warn, "{version}");
        }
        for version in ["3.5.23", "3.6.5", "3.6.16", "3.7.0", "4.0.0", "tomorrow's"] {
            assert_eq!(level(version, 3), Level::Ok, "{version}");
        }
        assert_eq!(level("3.3.25", 1), Level::Fail);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        let found = look("3.4.23", 1);
        assert!(found.finding.starts_with("etcd 3.4.23, which is at the end of its life: after a change"), "{found:?}");
        assert!(found.finding.contains("revoked") && !found.finding.contains("just granted"), "{found:?}");
        assert_eq!(look("3.4.99", 3).finding, "etcd 3.4.99, which is at the end of its life");
        assert_eq!(look("3.6.16", 3), Finding::ok("server", "etcd 3.6.16"));
        assert!(found.remedy.is_some());
    }

    #[test]
    fn ways_around_the_rights_are_told_of_versions_that_have_them() {
        for (version, is_open) in
            [("3.4.99", true), ("3.5.32", true), ("3.5.33", false), ("3.6.13", true), ("3.7.0", true), ("3.7.1", false)]
        {
            assert_eq!(security(version).is_some(), is_open, "{version}");
        }
        assert!(security("3.8.0").is_none() && security("x").is_none());
    }
}
