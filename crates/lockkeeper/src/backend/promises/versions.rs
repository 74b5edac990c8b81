//! The supported versions: one table in `docs/stores.md`, and the other pages that name a version.

use std::env;

use super::page::table;
use crate::backend::etcd::checks as etcd;
use crate::backend::redis::checks as redis;

/// The file that pins the version of etcd for the tests of each change.
const CURRENT_ETCD: &str = include_str!("../../../../../interop/go/go.mod");

/// Pages that repeat a version of the table, for readers who do not follow a link.
const COPIES: [(&str, &[Of]); 8] = [
    ("README.md", &[Of::Rust]),
    ("docs/getting-started.md", &[Of::Rust]),
    ("docs/etcd.md", &[Of::Etcd]),
    ("docs/stores/etcd.md", &[Of::Etcd]),
    ("docs/stores/redis.md", &[Of::Redis]),
    ("interop/oldest/go.mod", &[Of::Etcd]),
    ("crates/lockkeeper/src/lib.rs", &[Of::Redis, Of::Etcd]),
    ("crates/lockkeeper-etcd/src/lib.rs", &[Of::Etcd]),
];

/// The program whose oldest version a page repeats.
#[derive(Clone, Copy)]
enum Of {
    Rust,
    Redis,
    Etcd,
}

impl Of {
    fn oldest(self) -> String {
        match self {
            // The version in Cargo.toml, without a patch number.
            Self::Rust => env!("CARGO_PKG_RUST_VERSION").to_owned(),
            Self::Redis => redis::OLDEST.map(|part| part.to_string()).join("."),
            Self::Etcd => etcd::name_of(etcd::OLDEST),
        }
    }
}

pub(super) fn generated() -> String {
    let (rust, redis, etcd) = (Of::Rust.oldest(), Of::Redis.oldest(), Of::Etcd.oldest());
    let by_hand = "[redis.md](redis.md#tested-versions) lists the versions of Redis and Valkey that were run by hand";
    let current = current_etcd();
    let rows = [
        ["file".into(), "Linux, a local file system".into(), "Linux".into()],
        [
            "Redis, Valkey".into(),
            format!("Redis {redis} or newer, Valkey"),
            format!("the Redis of Debian 12 (7.0); {by_hand}"),
        ],
        [
            "etcd".into(),
            format!("etcd {etcd} or newer on every member"),
            format!(
                "etcd {current} and {etcd}; and the etcd of Debian 12 (3.4) with `unsafe=version`"
            ),
        ],
        ["the library".into(), format!("Rust {rust} or newer, Unix"), "Linux".into()],
        ["the command line".into(), "Linux".into(), "Linux".into()],
    ];
    let table = table(&["store", "accepted", "tests of each change run on"], rows.map(Vec::from));
    format!(
        "## Supported versions\n\n{table}\nlockkeeper refuses an older server. `unsafe=version` in the URL waives that \
         check, and `doctor` says what is\nwrong with the version.\n"
    )
}

fn current_etcd() -> &'static str {
    let line = CURRENT_ETCD.lines().find(|line| line.contains("go.etcd.io/etcd/server/v3 v"));
    line.and_then(|line| line.rsplit_once(" v")).expect("go.mod names the etcd of the tests").1
}

#[test]
fn the_oldest_versions_are_the_same_everywhere() {
    for (file, versions) in COPIES {
        let text = std::fs::read_to_string(super::root().join(file)).unwrap();
        for version in versions.iter().map(|of| of.oldest()) {
            assert!(text.contains(&version), "{file} does not name {version}");
        }
    }
}
