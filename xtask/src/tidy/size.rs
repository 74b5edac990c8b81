//! Long functions, files and stores. Functions and files are reported, not refused: a long list of
//! cases may be the clearest form. Generated files may be long. A store that grows is refused.

use super::finding::Finding;
use super::source::Source;
use super::tokens::{Token, tokens};

const FILE_LINES: usize = 400;
const FN_LINES: usize = 70;
const STORE_LINES: usize = 2500;

/// A store that may have more than [`STORE_LINES`].
pub(super) struct LargeStore {
    pub(super) path: &'static str,
    /// How many lines without tests it may have. The number may only fall.
    pub(super) lines: usize,
    pub(super) why: &'static str,
}

/// Another store leaves work to the kit of the core.
pub(crate) const LARGE_STORES: &[LargeStore] = &[
    LargeStore {
        path: "crates/lockkeeper-etcd/",
        lines: 11465,
        why: "it has two layouts and its own client: watches, leases and members",
    },
    LargeStore {
        path: "crates/lockkeeper-file/",
        lines: 5881,
        why: "it is a server too: it keeps the lines, finds dead clients and wakes waiters",
    },
    LargeStore {
        path: "crates/lockkeeper-redis/",
        lines: 4153,
        why: "its scripts answer each operation at once, and it has registers and transactions",
    },
    LargeStore {
        path: "crates/lockkeeper-redis-foreign/",
        lines: 2631,
        why: "it has the layouts of six locks, and one of them has a queue",
    },
    LargeStore {
        path: "crates/lockkeeper-redlock/",
        lines: 4945,
        why: "no server keeps its lines: its clients agree on members and tokens, wait and clean up, on several servers",
    },
];

/// The sizes of the large stores, each with its reason.
pub(super) fn large(large: &[LargeStore], sources: &[Source]) -> Vec<String> {
    let sizes = stores(sources).into_iter();
    let of = |path: &str| large.iter().find(|store| store.path == path);
    let known = sizes.filter_map(|(path, lines)| Some((of(path)?, lines)));
    known
        .map(|(LargeStore { path, lines: most, why }, lines)| {
            let lower = if lines < *most { "; lower the number in LARGE_STORES" } else { "" };
            format!("{path}: {lines} lines without tests, {most} may be, since {why}{lower}")
        })
        .collect()
}

/// The stores that have too many lines, and entries for stores that are small.
pub(super) fn growth(large: &[LargeStore], sources: &[Source]) -> Vec<Finding> {
    let sizes = stores(sources);
    let finding = |path: &str, message| Finding::new(&format!("{path}src/lib.rs"), 1, message);
    let mut findings = Vec::new();
    for &(path, lines) in &sizes {
        let known = large.iter().find(|store| store.path == path);
        let most = known.map_or(STORE_LINES, |store| store.lines);
        if lines > most {
            let message = format!("{lines} lines without tests; {most} are enough for this store");
            findings.push(finding(path, message));
        }
    }
    for store in large {
        let lines =
            sizes.iter().find(|(path, _)| *path == store.path).map_or(0, |(_, lines)| *lines);
        if lines <= STORE_LINES {
            let message = "the store is no longer large: remove it from LARGE_STORES".to_owned();
            findings.push(finding(store.path, message));
        }
    }
    findings
}

/// The lines without tests of each store. A crate with a driver at its top is a store.
fn stores(sources: &[Source]) -> Vec<(&str, usize)> {
    let stores = sources.iter().filter_map(|source| source.path.strip_suffix("src/driver.rs"));
    let lines = |store: &str| {
        let own = sources.iter().filter(|source| source.path.starts_with(store));
        // Of a file that is a test as a whole `shipped` is empty.
        own.filter(|source| !source.shipped.is_empty()).map(|source| source.shipped_lines).sum()
    };
    stores.map(|store| (store, lines(store))).collect()
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut notes = Vec::new();
    for source in sources.iter().filter(|source| !source.is_generated) {
        if source.shipped_lines > FILE_LINES {
            let message =
                format!("{} lines without tests; {FILE_LINES} are enough", source.shipped_lines);
            notes.push(Finding::new(&source.path, 1, message));
        }
        let tokens = tokens(&source.code);
        for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "fn") {
            if let Some((name, lines)) =
                function(&tokens[at..]).filter(|(_, lines)| *lines > FN_LINES)
            {
                let message = format!("fn {name} has {lines} lines; {FN_LINES} are enough");
                notes.push(Finding::new(&source.path, tokens[at].line, message));
            }
        }
    }
    notes
}

/// Name and length of the function that begins here; `None` for a type (`fn(u8)`) and a declaration
/// without a body.
fn function<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, usize)> {
    let name = tokens.get(1).filter(|token| token.is_word())?;
    let (mut braces, mut others) = (0_usize, 0_usize);
    for token in tokens {
        match token.text {
            "(" | "[" => others += 1,
            ")" | "]" => others = others.saturating_sub(1),
            "{" => braces += 1,
            "}" if braces <= 1 => return Some((name.text, token.line - tokens[0].line + 1)),
            "}" => braces -= 1,
            ";" if braces == 0 && others == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_reported_unless_it_is_generated() {
        let long = "fn f() {}\n".repeat(FILE_LINES + 1);
        let notes = |text: &str| check(&[Source::new("src/a.rs", text).unwrap()]).len();
        assert_eq!(notes(&long), 1);
        assert_eq!(notes(&format!("// This file is @generated by a program.\n{long}")), 0);
    }
}
