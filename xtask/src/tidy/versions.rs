//! The versions that documents repeat. One line of the sources has each version.

use super::finding::Finding;

/// A version, and the files that repeat it.
struct Repeated {
    /// The file that sets the version, and the text in front of the version there.
    file: &'static str,
    before: &'static str,
    /// The files that repeat it, for readers who do not follow a link.
    copies: &'static [&'static str],
}

const VERSIONS: [Repeated; 4] = [
    Repeated {
        file: "Cargo.toml",
        before: "\nrust-version = ",
        copies: &["README.md", "docs/getting-started.md", "docs/stores.md"],
    },
    Repeated {
        file: "crates/lockkeeper-redis-client/src/checks.rs",
        before: "\npub const OLDEST: [u32; 2] = ",
        copies: &["crates/lockkeeper/src/lib.rs", "docs/stores.md", "docs/stores/redis.md"],
    },
    Repeated {
        file: "crates/lockkeeper-etcd/src/builder/checks.rs",
        before: "\npub const OLDEST: Version = ",
        copies: &[
            "crates/lockkeeper-etcd/src/lib.rs",
            "crates/lockkeeper/src/lib.rs",
            "docs/etcd.md",
            "docs/stores.md",
            "docs/stores/etcd.md",
            "interop/oldest/go.mod",
        ],
    },
    // The etcd that the tests of each change run on.
    Repeated {
        file: "interop/go/go.mod",
        before: "go.etcd.io/etcd/server/v3 v",
        copies: &["docs/stores.md"],
    },
];

/// The files are those of the whole repository.
pub(crate) fn check(files: &[(String, String)]) -> Vec<Finding> {
    VERSIONS.iter().flat_map(|repeated| repeated.check(files)).collect()
}

impl Repeated {
    fn check(&self, files: &[(String, String)]) -> Vec<Finding> {
        let text = |file: &str| {
            files.iter().find(|(path, _)| path == file).map_or("", |(_, text)| text.as_str())
        };
        let Some((_, rest)) = text(self.file).split_once(self.before) else {
            let message = format!("no version stands behind {:?}", self.before.trim());
            return vec![Finding::new(self.file, 1, message)];
        };
        let version = version(rest.lines().next().unwrap_or_default());
        let lacking = self.copies.iter().filter(|copy| !has(text(copy), &version));
        let finding =
            |copy| Finding::new(copy, 1, format!("does not name {version}, as {}", self.file));
        lacking.map(|copy| finding(copy)).collect()
    }
}

/// `6.2` from `[6, 2];`.
fn version(line: &str) -> String {
    let parts = line.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(".")
}

/// Whether the text has the version, and not only a longer number with it.
fn has(text: &str, version: &str) -> bool {
    text.match_indices(version).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + version.len()..]);
        !before.ends_with(|c: char| c.is_ascii_digit() || c == '.')
            && !after.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_versions_are_the_same_everywhere() {
        let checked = |source: &str, copy: &str| {
            let files = [("a.rs", source), ("b.md", copy)];
            let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
            let repeated = Repeated { file: "a.rs", before: "OLDEST = ", copies: &["b.md"] };
            repeated.check(&files).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(checked("OLDEST = (3, 5, 14);\n1", "etcd 3.5.14, or newer").is_empty());
        for other in ["etcd 3.5.1", "etcd 3.5.140", "etcd 13.5.14", "etcd 1.3.5.14", ""] {
            let found = checked("OLDEST = (3, 5, 14);", other);
            assert_eq!(found, ["b.md:1: does not name 3.5.14, as a.rs"], "{other}");
        }
        assert_eq!(checked("", "3.5.14"), ["a.rs:1: no version stands behind \"OLDEST =\""]);
        assert_eq!([version("\"1.89\""), version("[6, 2];")], ["1.89", "6.2"]);
    }
}
