//! Long functions and files. They are reported, not refused: a long list of cases may be the
//! clearest form.

use super::finding::Finding;
use super::source::Source;
use super::tokens::{Token, tokens};

const FILE_LINES: usize = 400;
const FN_LINES: usize = 70;
const STORE_LINES: usize = 2500;

/// The stores that may have more than [`STORE_LINES`], and why. Another store leaves work to the
/// kit of the core.
const LARGE_STORES: &[(&str, &str)] = &[
    (
        "crates/lockkeeper-etcd/",
        "it has two layouts and its own client: watches, leases and members",
    ),
    (
        "crates/lockkeeper-file/",
        "it is a server too: it keeps the lines, finds dead clients and wakes waiters",
    ),
    ("crates/lockkeeper-redis/", "it has its own client, for one server, Sentinels and a Cluster"),
];

/// The stores that have too many lines without tests. A crate with a driver at its top is a store.
pub(super) fn stores(large: &[(&str, &str)], sources: &[Source]) -> Vec<Finding> {
    let mut notes = Vec::new();
    let stores = sources.iter().filter_map(|source| source.path.strip_suffix("src/driver.rs"));
    for store in stores.filter(|store| large.iter().all(|(known, _)| known != store)) {
        let own = sources.iter().filter(|source| source.path.starts_with(store));
        // Of a file that is a test as a whole `shipped` is empty.
        let lines: usize = own
            .filter(|source| !source.shipped.is_empty())
            .map(|source| source.shipped_lines)
            .sum();
        if lines > STORE_LINES {
            let message =
                format!("{lines} lines without tests; {STORE_LINES} are enough for a store");
            notes.push(Finding::new(&format!("{store}src/lib.rs"), 1, message));
        }
    }
    notes
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut notes = stores(LARGE_STORES, sources);
    for source in sources {
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
