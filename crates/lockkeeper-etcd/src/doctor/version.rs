//! The known mistakes of versions with leases and locks, and known ways around their rights.

use crate::builder::checks::{Check, NEWER, OLDEST, Version, name_of, or_waive, parse};
use crate::store::Finding;

/// A mistake, and where it is mended: one patch for each line of versions that had it.
struct Bug {
    what: &'static str,
    mended: &'static [Version],
}

/// A cluster of several members ends leases that their holders have renewed: two clients may then
/// hold a lock.
const STALLED: Bug = Bug {
    what: "a leader that stood still ends leases that are alive",
    mended: &[(3, 4, 31), (3, 5, 13), (3, 6, 0)],
};

/// These cost a holder its lock at worst.
const BUGS: [Bug; 3] = [
    Bug {
        what: "after a change of the leader it reports wrong lifetimes of leases",
        mended: &[(3, 4, 32), (3, 5, 14), (3, 6, 0)],
    },
    Bug { what: "it renews leases that are revoked", mended: &[(3, 4, 38), (3, 5, 23), (3, 6, 5)] },
    Bug {
        what: "it may not find a lease that it has just granted",
        mended: &[(3, 4, 20), (3, 5, 3), (3, 6, 0)],
    },
];

const RIGHTS: Bug = Bug {
    what: "it lets users exceed their rights in known ways (CVE-2026-33413 and others)",
    mended: &[(3, 5, 33), (3, 6, 14), (3, 7, 1)],
};

/// Lines of versions up to this one get no mistakes mended any more.
const ENDED: Version = (3, 4, u32::MAX);

/// The known mistakes of this version in a cluster of so many members. A version that is too old
/// is used all the same if the check is `waived`.
pub(super) fn look(text: &str, members: usize, waived: bool) -> Finding {
    let name = format!("etcd {text}");
    let Some(version) = parse(text) else { return Finding::ok("server", name) };
    let stalls = STALLED.is_in(version) && members > 1;
    let mut known: Vec<_> =
        BUGS.iter().filter(|bug| bug.is_in(version)).map(|bug| bug.what).collect();
    if stalls {
        known.insert(0, STALLED.what);
    }
    let is_old = version < OLDEST;
    if is_old && waived {
        known.push("unsafe=version waives this check");
    }
    let ended = if version <= ENDED { " and at the end of its life" } else { "" };
    let name =
        if is_old { format!("{name} is older than {}{ended}", name_of(OLDEST)) } else { name };
    let finding = if known.is_empty() { name } else { format!("{name}: {}", known.join("; ")) };
    match is_old && !waived {
        true => Finding::fail("server", finding, or_waive(NEWER, Check::Version)),
        false if known.is_empty() => Finding::ok("server", finding),
        false => Finding::warn("server", finding, NEWER),
    }
}

/// How users can exceed their rights on this version.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    fn level(version: &str, members: usize) -> Level {
        look(version, members, false).level
    }

    #[test]
    fn a_version_that_ends_live_leases_is_too_old_and_named_even_if_waived() {
        for version in ["3.3.25", "3.4.23", "3.4.99", "3.5.0-rc.1", "3.5.13"] {
            assert_eq!(
                (level(version, 1), level(version, 3)),
                (Level::Fail, Level::Fail),
                "{version}"
            );
            assert_eq!(look(version, 1, true).level, Level::Warn);
        }
        assert!(look("3.5.12", 3, true).finding.contains(": a leader that stood still"));
        assert!(!look("3.5.12", 1, true).finding.contains("stood still"));
        for version in ["3.5.14", "3.5.22", "3.6.4"] {
            assert_eq!(level(version, 3), Level::Warn, "{version}");
        }
        for version in ["3.5.23", "3.6.5", "3.6.16", "3.7.0", "4.0.0", "tomorrow's"] {
            assert_eq!(level(version, 3), Level::Ok, "{version}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        let found = look("3.4.23", 1, false);
        let beginning =
            "etcd 3.4.23 is older than 3.5.14 and at the end of its life: after a change";
        assert!(found.finding.starts_with(beginning), "{found:?}");
        assert!(
            found.finding.contains("revoked") && !found.finding.contains("just granted"),
            "{found:?}"
        );
        assert!(found.remedy.unwrap().ends_with("or unsafe=version to go without this check"));
        assert!(look("3.4.23", 1, true).finding.contains("unsafe=version waives this check"));
        assert_eq!(look("3.6.16", 3, false), Finding::ok("server", "etcd 3.6.16"));
    }

    #[test]
    fn ways_around_the_rights_are_reported_for_versions_that_have_them() {
        for (version, is_open) in [
            ("3.4.99", true),
            ("3.5.32", true),
            ("3.5.33", false),
            ("3.6.13", true),
            ("3.7.0", true),
            ("3.7.1", false),
        ] {
            assert_eq!(security(version).is_some(), is_open, "{version}");
        }
        assert!(security("3.8.0").is_none() && security("x").is_none());
    }
}
