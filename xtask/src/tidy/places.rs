//! Features with one place: the clock, the source of randomness, the start of tasks and threads.

use super::finding::Finding;
use super::source::Source;
use super::tokens::{Token, paths};

/// A feature that only one module of a crate may use.
struct Place {
    /// The file below `src/`. The files in the folder of its module belong to it.
    file: &'static str,
    what: &'static str,
    /// Neighbouring segments of a path.
    paths: &'static [&'static [&'static str]],
    /// Words that prove a use by themselves.
    words: &'static [&'static str],
    /// A method, and the names of the values of this type.
    method: Option<(&'static str, &'static [&'static str])>,
}

const PLACES: [Place; 3] = [
    Place {
        file: "time.rs",
        what: "asks for the time or sleeps",
        paths: &[
            &["Instant", "now"],
            &["tokio", "time"],
            &["thread", "sleep"],
            &["Timestamp", "now"],
            &["Zoned", "now"],
        ],
        words: &["SystemTime", "clock_gettime", "UNIX_EPOCH"],
        method: None,
    },
    Place {
        file: "random.rs",
        what: "draws random numbers",
        paths: &[&["rand"], &["Uuid", "new_v4"]],
        words: &["getrandom", "fastrand", "thread_rng", "RandomState"],
        method: None,
    },
    Place {
        file: "runtime.rs",
        what: "starts a task or a thread",
        paths: &[
            &["tokio", "spawn"],
            &["task", "spawn"],
            &["thread", "spawn"],
            &["thread", "Builder"],
            &["thread", "scope"],
            &["Handle", "current"],
            &["Handle", "try_current"],
        ],
        words: &["spawn_blocking", "spawn_local", "JoinSet", "TaskTracker"],
        method: Some(("spawn", &["handle", "runtime", "rt"])),
    },
];

/// Exceptions: the file, the feature (by the file that owns it), and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/lockkeeper-testing/src/", "time.rs", "the suite runs a store on virtual time"),
    ("crates/lockkeeper-testing/src/", "runtime.rs", "the suite starts contenders"),
    (
        "crates/lockkeeper/src/layer/chaos.rs",
        "runtime.rs",
        "a late duplicate outlives the call that caused it",
    ),
    (
        "crates/lockkeeper-file/src/writer.rs",
        "runtime.rs",
        "SQLite blocks, and the runtime is the engine's",
    ),
    (
        "crates/lockkeeper-cli/src/",
        "time.rs",
        "limits for a child or a server, and dates for people; no lease hangs on it",
    ),
    ("crates/lockkeeper-cli/src/cmd/bench/", "runtime.rs", "a measurement is many tasks"),
    (
        "crates/lockkeeper-cli/src/cmd/watch.rs",
        "runtime.rs",
        "a reader that does not read must not hold up a signal",
    ),
    ("crates/live/", "time.rs", "live tests measure a real server"),
    ("crates/live/", "runtime.rs", "live tests start servers and contenders"),
];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let shipped = sources.iter().filter(|source| source.path.starts_with("crates/"));
    shipped.flat_map(|source| PLACES.iter().flat_map(|place| file(source, place))).collect()
}

fn file(source: &Source, place: &Place) -> Vec<Finding> {
    let is_place =
        ["src", "src/kit"].iter().any(|dir| is_at(&source.path, &format!("/{dir}/{}", place.file)));
    let is_allowed =
        ALLOWED.iter().any(|(dir, file, _)| source.path.starts_with(dir) && *file == place.file);
    if is_place || is_allowed {
        return Vec::new();
    }
    let tokens = source.tokens();
    let mut lines = by_path(place, &tokens);
    lines.extend(
        tokens.iter().filter(|token| place.words.contains(&token.text)).map(|token| token.line),
    );
    lines.extend(by_method(place, &tokens));
    lines.sort_unstable();
    lines.dedup();
    let message = format!("{}: only src/{} may", place.what, place.file);
    lines.into_iter().map(|line| Finding::new(&source.path, line, message.clone())).collect()
}

/// Whether this is the file at `place`, or one of the files below its module.
fn is_at(path: &str, place: &str) -> bool {
    path.ends_with(place) || path.contains(&place.replace(".rs", "/"))
}

fn by_path(place: &Place, tokens: &[Token<'_>]) -> Vec<usize> {
    let is_meant = |segments: &[&str], banned: &[&str]| match banned {
        // The name of a crate counts where a path begins.
        [name] => segments.first() == Some(name),
        _ => segments.windows(banned.len()).any(|window| window == banned),
    };
    let found = paths(tokens)
        .into_iter()
        .filter(|path| place.paths.iter().any(|p| is_meant(&path.segments, p)));
    found.map(|path| path.line).collect()
}

fn by_method(place: &Place, tokens: &[Token<'_>]) -> Vec<usize> {
    let Some((method, values)) = place.method else { return Vec::new() };
    let calls = tokens.windows(4).filter(|window| {
        let [value, dot, name, open] = [0, 1, 2, 3].map(|i| window[i].text);
        values.contains(&value) && dot == "." && name == method && open == "("
    });
    calls.map(|window| window[2].line).collect()
}
