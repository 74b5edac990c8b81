//! The schemes: which there are, and which of them this build can open.

use crate::{Error, ErrorKind, Result};

/// What stands behind a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// Always there.
    BuiltIn,
    /// There when this cargo feature is on; the flag tells.
    Feature(&'static str, bool),
    /// A later version will have it. Its own parameters are not checked until then.
    Later,
}

/// For those who named no store that there is.
pub(super) const EXAMPLES: &str = "etcd://HOST, redis://HOST or file:PATH";

const ETCD: Store = Store::Feature("etcd", cfg!(feature = "etcd"));
const REDIS: Store = Store::Feature("redis", cfg!(feature = "redis"));

const SCHEMES: &[(&str, Store)] = &[
    ("memory", Store::BuiltIn),
    ("file", Store::Feature("file", cfg!(feature = "file"))),
    ("redis", REDIS),
    ("rediss", REDIS),
    ("redis+sentinel", REDIS),
    ("rediss+sentinel", REDIS),
    ("redis+cluster", REDIS),
    ("rediss+cluster", REDIS),
    ("redlock", Store::Later),
    ("redlocks", Store::Later),
    ("etcd", ETCD),
    ("etcds", ETCD),
    ("zk", Store::Later),
    ("zks", Store::Later),
    ("mysql", Store::Later),
    ("mariadb", Store::Later),
    ("postgres", Store::Later),
    ("postgresql", Store::Later),
    ("http", Store::Later),
    ("https", Store::Later),
];

/// The parameters of a Redis; the first two only behind Sentinels.
const SENTINEL_PARAMS: [&str; 10] = [
    "sentinel-user",
    "sentinel-password",
    "layout",
    "min-replicas",
    "timeout",
    "resp",
    "ca",
    "cert",
    "key",
    "server-name",
];

/// The parameters of an etcd.
const ETCD_PARAMS: [&str; 6] = ["layout", "timeout", "ca", "cert", "key", "server-name"];

/// The scheme as it stands in the table, whatever its case.
pub(super) fn find(scheme: &str) -> Option<&'static str> {
    SCHEMES.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(scheme))
}

/// What is meant instead of an unknown scheme.
pub(super) fn suggestion(scheme: &str) -> String {
    match nearest(scheme, SCHEMES.iter().map(|(name, _)| *name)) {
        Some(name @ ("memory" | "file")) => format!("{name}:"),
        Some(name) => format!("{name}://"),
        None => EXAMPLES.to_owned(),
    }
}

/// The parameters that only this scheme takes; `None` where they are not known yet.
pub(super) fn own_params(scheme: &str) -> Option<&'static [&'static str]> {
    match lookup(scheme) {
        Store::Feature("redis", _) if scheme.contains("+sentinel") => Some(&SENTINEL_PARAMS),
        Store::Feature("redis", _) => Some(&SENTINEL_PARAMS[2..]),
        Store::Feature("etcd", _) => Some(&ETCD_PARAMS),
        Store::BuiltIn | Store::Feature(..) => Some(&[]),
        Store::Later => None,
    }
}

pub(super) fn available(scheme: &str) -> Result<()> {
    let (message, remedy) = match lookup(scheme) {
        Store::BuiltIn | Store::Feature(_, true) => return Ok(()),
        Store::Feature(feature, false) => {
            (format!("{scheme}: needs the cargo feature `{feature}`"), "a build of lockkeeper with that feature")
        }
        Store::Later => (format!("this version of lockkeeper does not have the store of {scheme}:// yet"), EXAMPLES),
    };
    Err(Error::new(ErrorKind::Unsupported, message).with_remedy(remedy))
}

fn lookup(scheme: &str) -> Store {
    SCHEMES.iter().find(|(name, _)| *name == scheme).map_or(Store::Later, |(_, store)| *store)
}

/// Returns the candidate that a mistyped word most likely means, or `None` if none is near enough. One edit in three
/// letters is allowed: at least one, and at most three.
///
/// ```
/// use lockkeeper::url::nearest;
///
/// assert_eq!(nearest("max-waitesr", ["prefix", "max-waiters"]), Some("max-waiters"));
/// assert_eq!(nearest("colour", ["prefix", "max-waiters"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be put in, taken out, replaced or swapped with their neighbour.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("ttl", "ttl", 0),
            ("tll", "ttl", 1),
            ("tlt", "ttl", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((edits(a, b), edits(b, a)), (distance, distance), "{a} {b}");
        }
    }

    #[test]
    fn later_stores_and_stores_whose_feature_is_off_say_so() {
        assert!(available("memory").is_ok());
        assert_eq!(available("file").is_ok(), cfg!(feature = "file"));
        for (scheme, _) in SCHEMES.iter().filter(|(_, store)| *store == Store::Later) {
            let error = available(scheme).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected = format!("this version of lockkeeper does not have the store of {scheme}:// yet");
            assert!(error.to_string().starts_with(&expected));
        }
    }
}
