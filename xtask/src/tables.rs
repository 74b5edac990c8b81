//! `cargo xtask tables`: writes the generated parts of `docs/stores.md` and `docs/stores/*.md`. A
//! test of the library does the work, since the library knows what the stores can do. In a normal
//! test run the test only compares.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::commands::{cargo, exit_code, say};

/// The module with the data and their tests, in the test program `it` of the library.
const TESTS: &str = "promises::";

/// Makes the test write the table instead of comparing it.
const WRITE: &str = "LOCKKEEPER_TABLES";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("cargo xtask tables takes --check and nothing else"),
    };
    let mut test = cargo(root);
    test.args([
        "test",
        "--quiet",
        "--package",
        "lockkeeper",
        "--all-features",
        "--locked",
        "--test",
        "it",
        TESTS,
    ]);
    if check {
        test.env_remove(WRITE);
    } else {
        test.env(WRITE, "write");
    }
    let line = say(&test);
    Ok(exit_code(test.status().with_context(|| format!("cannot run {line}"))?))
}
