//! `cargo xtask tables`: has the generated part of `docs/stores.md` written. A test of the library does it, which knows what
//! the stores can do, and compares when it is run as a test.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::test::{cargo, exit_code, say};

/// Where the data is, and the tests of it.
const TESTS: &str = "backend::promises::";

/// Tells the test to write what it would compare.
const WRITE: &str = "LOCKKEEPER_TABLES";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("cargo xtask tables takes --check and nothing else"),
    };
    let mut test = cargo(root);
    test.args(["test", "--quiet", "--package", "lockkeeper", "--all-features", "--locked", "--lib", TESTS]);
    if check {
        test.env_remove(WRITE);
    } else {
        test.env(WRITE, "write");
    }
    let line = say(&test);
    Ok(exit_code(test.status().with_context(|| format!("cannot run {line}"))?))
}
