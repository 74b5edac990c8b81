//! The comparisons with other libraries, which are a workspace of their own.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::commands::{cargo, say};
use crate::packages::{self, Program};
use crate::test::Outcome;

/// What the build of a client of etcd starts.
const PROTOC: &[Program] =
    &[Program { binary: "protoc", package: "protobuf-compiler", variable: None }];

const CLIPPY: [&str; 9] = [
    "clippy",
    "--manifest-path=compare/Cargo.toml",
    "--target-dir=target/compare",
    "--workspace",
    "--all-targets",
    "--locked",
    "--",
    "-D",
    "warnings",
];

/// Each client in Rust locks and releases for a moment.
const TEST: [&str; 5] = [
    "test",
    "--manifest-path=compare/Cargo.toml",
    "--target-dir=target/compare",
    "--workspace",
    "--locked",
];

/// Compiles them with clippy, and runs their tests: the libraries that lockkeeper is compared with
/// take some minutes in a fresh folder.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    packages::install_missing(PROTOC)?;
    let start = Instant::now();
    let mut outcome = Outcome::default();
    for args in [&CLIPPY[..], &TEST] {
        let mut command = cargo(root);
        command.args(args);
        let line = say(&command);
        let status = command.status().with_context(|| format!("cannot run {line}"))?;
        outcome.end("compare", status, |_| line.clone());
    }
    outcome.took = start.elapsed();
    Ok(outcome)
}
