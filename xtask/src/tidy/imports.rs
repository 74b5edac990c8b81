//! The direction of imports: `kinds → engine → store ← backend, layer`, and
//! `cli → server → lockkeeper`.

use std::collections::HashMap;

use super::finding::Finding;
use super::source::Source;
use super::tokens::{CodePath, paths};

const LIBRARY: &str = "crates/lockkeeper/src/";
const CORE: &str = "crates/lockkeeper-core/src/";

/// A directory of the library, and the modules that it must not use.
struct Room {
    /// The sources of its crate.
    home: &'static str,
    name: &'static str,
    /// Other rooms.
    closed: &'static [&'static str],
    /// Paths outside the library.
    outside: &'static [&'static str],
    /// Words that name a store.
    words: &'static [&'static str],
}

const BACKENDS: &[&str] =
    &["memorystore", "filestore", "sqlite", "redis", "etcd", "zookeeper", "mysql", "postgres"];
const IO: &[&str] = &[
    "tokio",
    "rustix",
    "rusqlite",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
];

const ROOMS: &[Room] = &[
    Room {
        home: CORE,
        name: "store",
        closed: &["kit", "net", "runtime", "tls"],
        outside: IO,
        words: &[],
    },
    Room {
        home: LIBRARY,
        name: "engine",
        closed: &["kinds", "backend", "layer", "quorum", "blocking"],
        outside: &[],
        words: BACKENDS,
    },
    Room {
        home: LIBRARY,
        name: "kinds",
        closed: &["backend", "layer", "quorum"],
        outside: &[],
        words: BACKENDS,
    },
    Room {
        home: LIBRARY,
        name: "backend",
        closed: &[
            "engine",
            "kinds",
            "layer",
            "api",
            "keeper",
            "acquire",
            "guard",
            "fence",
            "doctor",
            "optimistic",
            "testing",
        ],
        outside: &[],
        words: &[],
    },
    Room {
        home: LIBRARY,
        name: "layer",
        closed: &["engine", "kinds", "backend", "api", "keeper", "acquire"],
        outside: &[],
        words: &[],
    },
    Room {
        home: LIBRARY,
        name: "quorum",
        closed: &["engine", "kinds", "backend", "layer", "keeper"],
        outside: &[],
        words: &[],
    },
];

/// The crates that the core and the stores must not use. Every crate that `CRATES` does not name is
/// a store.
const ABOVE_A_STORE: &[&str] =
    &["lockkeeper", "lockkeeper_server", "lockkeeper_cli", "lockkeeper_live", "lockkeeper_testing"];

const TESTED: &[&str] = &["lockkeeper", "lockkeeper_testing"];

/// Folders, and the crates that they must not use.
const CRATES: [(&str, &[&str]); 8] = [
    (LIBRARY, &["lockkeeper_server", "lockkeeper_cli", "lockkeeper_live", "lockkeeper_testing"]),
    ("crates/lockkeeper-testing/src/", &["lockkeeper_server", "lockkeeper_cli", "lockkeeper_live"]),
    ("crates/lockkeeper-server/src/", &["lockkeeper_cli", "lockkeeper_live"]),
    ("crates/lockkeeper-cli/src/", &["lockkeeper_live"]),
    ("crates/live/src/", &["lockkeeper_server", "lockkeeper_cli"]),
    // The servers of the tests know nothing of locks; the tests do.
    ("crates/live/src/etcd/", TESTED),
    ("crates/live/src/proxy/", TESTED),
    ("crates/live/src/redis/", TESTED),
];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let exports = exports(sources);
    sources.iter().flat_map(|source| file(source, &exports)).collect()
}

/// The items at the root of the library, and the room of each item.
fn exports(sources: &[Source]) -> HashMap<String, String> {
    let Some(root) = sources.iter().find(|source| source.path == format!("{LIBRARY}lib.rs")) else {
        return HashMap::new();
    };
    let mut exports = HashMap::new();
    for path in paths(&root.tokens()) {
        let inside: Vec<_> =
            path.segments.iter().filter(|segment| !["crate", "self"].contains(segment)).collect();
        if let (Some(room), Some(last)) = (inside.first(), inside.last()) {
            exports.insert(path.alias.unwrap_or(last).to_owned(), (**room).to_owned());
        }
    }
    exports
}

fn file(source: &Source, exports: &HashMap<String, String>) -> Vec<Finding> {
    let tokens = source.tokens();
    let paths = paths(&tokens);
    let mut findings = Vec::new();
    let above = above(&source.path);
    for path in paths.iter().filter(|path| above.contains(&path.segments[0])) {
        findings.push(Finding::new(
            &source.path,
            path.line,
            format!("{} is above this crate", path.segments[0]),
        ));
    }
    let in_room = |room: &&Room| {
        module(&source.path, room.home).is_some_and(|module| module.first() == Some(&room.name))
    };
    let Some(room) = ROOMS.iter().find(in_room) else { return findings };
    let Some(module) = module(&source.path, room.home) else { return findings };
    for path in &paths {
        if let Some(problem) = problem(room, path, &module, exports) {
            findings.push(Finding::new(&source.path, path.line, problem));
        }
    }
    for token in &tokens {
        let word = token.text.to_ascii_lowercase();
        if let Some(store) = room.words.iter().find(|store| word.contains(*store)) {
            findings.push(Finding::new(
                &source.path,
                token.line,
                format!("{}/ names a store: {store}", room.name),
            ));
        }
    }
    findings.dedup();
    findings
}

/// The crates that a file must not use.
fn above(path: &str) -> Vec<&'static str> {
    let named: Vec<_> = CRATES.iter().filter(|(dir, _)| path.starts_with(dir)).collect();
    let is_store = named.is_empty() && path.starts_with("crates/lockkeeper-");
    let of_a_store = if is_store { ABOVE_A_STORE } else { &[] };
    named.into_iter().flat_map(|(_, above)| *above).chain(of_a_store).copied().collect()
}

/// Why this room must not have this path, if that is so.
fn problem(
    room: &Room,
    path: &CodePath<'_>,
    module: &[&str],
    exports: &HashMap<String, String>,
) -> Option<String> {
    let Some(inside) = resolve(path, module) else {
        let outside = path.segments.join("::");
        let hit = room
            .outside
            .iter()
            .find(|io| outside == **io || outside.starts_with(&format!("{io}::")))?;
        return Some(format!("{}/ must do no I/O, but imports {hit}", room.name));
    };
    let first = *inside.first()?;
    if first == "*" {
        return Some(format!(
            "{}/ imports everything from the root, so that its direction cannot be checked",
            room.name
        ));
    }
    let target = exports.get(first).map_or(first, String::as_str);
    let closed = room.closed.contains(&target);
    closed
        .then(|| format!("{}/ must not import {target} ({})", room.name, path.segments.join("::")))
}

/// The path from the root of the library; `None` for a path that leads outside it or below its own
/// module.
fn resolve<'a>(path: &CodePath<'a>, module: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut base: Vec<&str> = module.to_vec();
    // Modules inside the file: their names do not matter, since `super` removes them again.
    base.extend(std::iter::repeat_n("", path.nested));
    let mut segments = path.segments.iter().copied().peekable();
    match segments.next()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => drop(base.pop()),
        _ => return None,
    }
    while segments.next_if_eq(&"super").is_some() {
        base.pop();
    }
    base.extend(segments);
    Some(base)
}

/// The module of a file in a crate; empty for the root.
fn module<'a>(path: &'a str, home: &str) -> Option<Vec<&'a str>> {
    let inside = path.strip_prefix(home)?.strip_suffix(".rs")?;
    let mut module: Vec<&str> = inside.split('/').collect();
    module.pop_if(|last| ["mod", "lib"].contains(last));
    Some(module)
}
