//! `cargo xtask mutants`: changes one place of a file after the other, and runs the tests on each
//! change.
//!
//! A mutant that survives shows a line that no test protects. The line gets a test, or a reason why
//! the program is the same with the mutant.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::commands::{cargo, exit_code, say_and_run};
use crate::go;

/// The crate that makes the mutants, from crates.io.
const TOOL: &str = "cargo-mutants";
const VERSION: &str = "27.1.0";

/// A mutant counts as found if it makes the tests take this many times as long.
const TIME_LIMIT: &str = "4";

/// The programs and the names of the tests that matter for files with this prefix. To build all
/// tests for each mutant takes minutes. For other files, all tests of their package run.
const THAT_MATTER: [(&str, &[&str]); 8] = [
    (
        "crates/lockkeeper/src/engine/",
        &[
            "--lib",
            "--test",
            "it",
            "--",
            "engine::",
            "memory_store::",
            "memory_store_by_session::",
            "dedicated::",
        ],
    ),
    ("crates/lockkeeper-core/src/store/", &["--lib", "--", "store::"]),
    ("crates/lockkeeper/src/backend/memory/", &["--lib", "--test", "it", "--", "memory"]),
    ("crates/lockkeeper-file/src/", &["--lib"]),
    ("crates/lockkeeper-redis/src/", &["--lib"]),
    ("crates/lockkeeper-redlock/src/", &["--lib"]),
    ("crates/lockkeeper-etcd/src/", &["--lib"]),
    ("crates/lockkeeper/src/backend/", &["--lib", "--", "backend::"]),
];

/// Runs the tests that matter, or the live tests with `--live`, on each mutant of the files.
/// Arguments after `--` go to `cargo test`, and replace the choice of tests here.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let (options, tests) = split(args);
    let (live, files): (Vec<_>, Vec<_>) = options.iter().partition(|option| *option == "--live");
    if files.is_empty() {
        bail!("no FILE. Try: cargo xtask mutants crates/lockkeeper-core/src/store/admit.rs");
    }
    if let Some(missing) = files.iter().find(|file| !root.join(file).is_file()) {
        bail!("{missing} is no file below {}", root.display());
    }
    install()?;
    let mut mutants = command(root, &files, !live.is_empty());
    if !live.is_empty() {
        go::build(root)?;
        mutants.env("LOCKKEEPER_LIVE_ETCD", go::target(root)?.join("interop/bin/etcd"));
    }
    mutants.arg("--");
    if tests.is_empty() && live.is_empty() {
        mutants.args(that_matter(&files))
    } else {
        mutants.args(tests)
    };
    Ok(exit_code(say_and_run(&mut mutants)?))
}

/// The tests that matter for all of these files; all tests, if the files have different ones.
fn that_matter(files: &[&String]) -> &'static [&'static str] {
    let of = |file: &String| {
        THAT_MATTER.iter().find(|(place, _)| file.starts_with(place)).map(|(_, tests)| *tests)
    };
    let all: Vec<_> = files.iter().map(|file| of(file)).collect();
    all[0].filter(|first| all.iter().all(|other| *other == Some(*first))).unwrap_or_default()
}

fn split(args: &[String]) -> (&[String], &[String]) {
    match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[]),
    }
}

/// The tool copies the tree, so that a mutant is never in this checkout. The built dependencies
/// stay from one run to the next, and the builds have no debug information.
fn command(root: &Path, files: &[&String], live: bool) -> Command {
    let mut mutants = cargo(root);
    mutants
        .env("CARGO_TARGET_DIR", root.join("target/mutants"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    mutants.args([
        "mutants",
        "--workspace",
        "--all-features",
        "--no-shuffle",
        "--jobs",
        "1",
        "--output",
        "target",
    ]);
    mutants.args(["--timeout-multiplier", TIME_LIMIT, "--minimum-test-timeout", "60"]);
    mutants.args(["--exclude-re", "impl (fmt::)?(Debug|Display)"]);
    files.iter().for_each(|file| {
        mutants.args(["--file", file]);
    });
    for package in live.then(|| with_live_tests(root)).into_iter().flatten() {
        mutants.args(["--test-package", &package]);
    }
    mutants
}

/// The packages with tests on real servers: each store that has some, and what holds on every
/// server.
fn with_live_tests(root: &Path) -> Vec<String> {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let stores = crates.filter(|folder| folder.path().join("tests/faults").is_dir());
    let mut packages: Vec<_> =
        stores.filter_map(|folder| folder.file_name().into_string().ok()).collect();
    packages.push("lockkeeper-live".to_owned());
    packages.sort_unstable();
    packages
}

fn install() -> Result<()> {
    let there = Command::new("cargo").args(["mutants", "--version"]).output();
    if there.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains(VERSION)) {
        return Ok(());
    }
    let mut install = Command::new("cargo");
    install.args(["install", "--locked", TOOL, "--version", VERSION]);
    if !say_and_run(&mut install)?.success() {
        bail!("{TOOL} {VERSION} cannot be installed: see above");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(args: &[&str]) -> Vec<String> {
        args.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arguments_after_the_dashes_go_to_the_tests() {
        let args = owned(&["a.rs", "--live", "--", "--lib", "redis"]);
        assert_eq!(split(&args), (&args[..2], &args[3..]));
        assert_eq!(split(&args[..2]), (&args[..2], &[][..]));
    }

    #[test]
    fn the_tests_that_look_at_a_file_are_chosen_by_its_folder() {
        let engine = "crates/lockkeeper/src/engine/hold.rs".to_owned();
        let admit = "crates/lockkeeper-core/src/store/admit.rs".to_owned();
        let other = "crates/lockkeeper-core/src/time.rs".to_owned();
        assert!(that_matter(&[&engine, &engine]).contains(&"engine::"));
        assert_eq!(that_matter(&[&admit])[0], "--lib");
        assert!(that_matter(&[&engine, &admit]).is_empty() && that_matter(&[&other]).is_empty());
    }

    #[test]
    fn each_folder_whose_tests_are_chosen_is_there() {
        for (place, _) in THAT_MATTER {
            assert!(crate::root().unwrap().join(place).is_dir(), "{place}");
        }
    }

    #[test]
    fn each_file_is_named_and_servers_only_where_they_are_asked_for() {
        let (one, two) = ("a.rs".to_owned(), "b.rs".to_owned());
        let words = |live| {
            let command = command(&crate::root().unwrap(), &[&one, &two], live);
            let words: Vec<_> =
                command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        assert!(words(false).contains("--file a.rs --file b.rs"), "{}", words(false));
        assert!(!words(false).contains("--test-package"), "{}", words(false));
        for package in
            ["lockkeeper-etcd", "lockkeeper-live", "lockkeeper-redis", "lockkeeper-redlock"]
        {
            assert!(words(true).contains(&format!("--test-package {package}")), "{}", words(true));
        }
    }
}
