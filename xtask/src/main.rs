//! The tasks of the repository: `cargo xtask TASK`.

mod bench;
mod budgets;
mod ci;
mod commands;
mod compare;
mod cpu;
mod examples;
mod go;
mod interop;
mod mutants;
mod packages;
mod secrets;
mod storm;
mod tables;
mod test;
mod tidy;
mod valkey;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// The name, the arguments and the description of each task.
const TASKS: [(&str, &str, &str); 8] = [
    ("bench", "[GOAL…]", "measure the goals, and print the table of docs/benchmarks.md"),
    ("ci", "", "do all that a change has to pass, as .ci/run does"),
    (
        "interop",
        "[ARG…]",
        "build the foreign clients, and run the tests that put them beside lockkeeper; needs Go, Java, Node.js \
         and Python",
    ),
    (
        "mutants",
        "[--live] FILE… [-- ARG…]",
        "change one place of the files after the other, and see whether a test fails; ARGs go to cargo test",
    ),
    (
        "storm",
        "NAME",
        "run a storm: cluster, cluster_kills, etcd, file or sentinel; --seconds N --seed S: its length and its seed",
    ),
    ("tables", "[--check]", "write the tables of docs/stores.md and docs/stores/, or only compare"),
    (
        "test",
        "[--all] [ARG…]",
        "install what the tests need, then run them and the examples, with --all the rarely run ones too; ARGs go to cargo \
         test, without the examples",
    ),
    (
        "tidy",
        "",
        "check what the compiler does not: directions of imports, clocks, randomness, tasks, leftovers, claims",
    ),
];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        None | Some("help" | "--help" | "-h") => {
            println!("cargo xtask TASK");
            for (name, args, what) in TASKS {
                println!("  {:<14} {what}", format!("{name} {args}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Some("bench") => bench::run(&root()?, &args.collect::<Vec<_>>()),
        Some("ci") => ci::run(&root()?),
        Some("interop") => interop::run(&root()?, &args.collect::<Vec<_>>()),
        Some("mutants") => mutants::run(&root()?, &args.collect::<Vec<_>>()),
        Some("storm") => storm::run(&root()?, &args.collect::<Vec<_>>()),
        Some("tables") => tables::run(&root()?, &args.collect::<Vec<_>>()),
        Some("test") => test::run(&root()?, &args.collect::<Vec<_>>()),
        Some("tidy") => tidy::run(&root()?),
        Some(other) => bail!("there is no task {other:?}; `cargo xtask` lists them"),
    }
}

/// The root of the repository, in any working directory.
fn root() -> Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(parent.context("the directory of xtask has no parent")?.to_owned())
}
