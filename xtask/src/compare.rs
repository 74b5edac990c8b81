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

/// Compiles them with clippy: the libraries that lockkeeper is compared with take some minutes in a
/// fresh folder.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    packages::install_missing(PROTOC)?;
    let start = Instant::now();
    let mut clippy = cargo(root);
    clippy.args(CLIPPY);
    let line = say(&clippy);
    let status = clippy.status().with_context(|| format!("cannot run {line}"))?;
    let mut outcome = Outcome { took: start.elapsed(), ..Outcome::default() };
    outcome.end("compare", status, |_| line.clone());
    Ok(outcome)
}
