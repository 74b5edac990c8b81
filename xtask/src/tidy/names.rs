//! Names of types: two types of one crate with the same name are taken for each other.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::source::Source;

/// The names that more than one type of a crate has today. No name may be added.
pub(crate) const DOUBLE: &[(&str, &[&str])] = &[
    ("compare/etcd", &["Row"]),
    ("compare/redis", &["Postgres"]),
    ("crates/live", &["End"]),
    (
        "crates/lockkeeper",
        &[
            "Acquired",
            "Attempt",
            "Counted",
            "Guard",
            "Inner",
            "Leadership",
            "Lost",
            "Metrics",
            "MultiGuard",
            "Outcome",
            "ReleaseRequested",
            "Request",
            "Sealed",
        ],
    ),
    ("crates/lockkeeper-cli", &["Change", "Claim", "Event", "Line", "Outage", "Report", "Task"]),
    ("crates/lockkeeper-core", &["Admission", "Alarm", "WallAlarm"]),
    ("crates/lockkeeper-etcd", &["Member"]),
    ("crates/lockkeeper-file", &["Kind"]),
    ("crates/lockkeeper-testing", &["Entry", "Held"]),
];

/// The file in which [`DOUBLE`] is.
const HERE: &str = "xtask/src/tidy/names.rs";

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    against(DOUBLE, sources)
}

/// The findings if these names may be defined twice.
pub(super) fn against(double: &[(&str, &[&str])], sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let defined = defined(sources);
    let is_listed = |root: &str, name: &str| {
        double.iter().any(|(at, names)| *at == root && names.contains(&name))
    };
    for ((root, name), places) in &defined {
        if let [first, others @ ..] = &places[..] {
            for (path, line) in others.iter().filter(|_| !is_listed(root, name)) {
                let message = format!("{name} is also a type in {}:{}", first.0, first.1);
                findings.push(Finding::new(path, *line, message));
            }
        }
    }
    for (root, name) in
        double.iter().flat_map(|(root, names)| names.iter().map(|name| (*root, *name)))
    {
        if defined.get(&(root, name)).is_none_or(|places| places.len() < 2) {
            findings.push(Finding::new(
                HERE,
                1,
                format!("{name} of {root} is no longer double: remove it from DOUBLE"),
            ));
        }
    }
    findings
}

/// Crate and name, and where types of that name are defined.
type Defined<'a> = BTreeMap<(&'a str, &'a str), Vec<(&'a str, usize)>>;

fn defined(sources: &[Source]) -> Defined<'_> {
    let mut defined = Defined::new();
    for source in sources {
        let Some((root, _)) = source.path.split_once("/src/") else { continue };
        for pair in source.tokens().windows(2) {
            if ["struct", "enum", "trait", "union"].contains(&pair[0].text) && is_type(pair[1].text)
            {
                defined.entry((root, pair[1].text)).or_default().push((&source.path, pair[1].line));
            }
        }
    }
    defined
}

fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}
