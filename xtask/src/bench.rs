//! `cargo xtask bench`: measures the goals.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::commands::{cargo, exit_code, say};

/// The table goes to stdout, cargo's output to stderr.
pub(crate) fn run(root: &Path, goals: &[String]) -> Result<ExitCode> {
    let mut bench = cargo(root);
    bench
        .args([
            "bench",
            "--quiet",
            "--locked",
            "--package",
            "lockkeeper-cli",
            "--bench",
            "goals",
            "--",
        ])
        .args(goals);
    say(&bench);
    Ok(exit_code(bench.status().context("cargo cannot be run")?))
}
