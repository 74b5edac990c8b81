//! `cargo xtask storm`: one storm, for as long as one wants.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::commands::{cargo, exit_code, say};
use crate::test::install;

/// The storms: the modules of `crates/live/tests/storms` that have one.
const STORMS: [&str; 6] = ["cluster", "cluster_kills", "etcd", "file", "redlock", "sentinel"];

/// The variables of a storm, by the options of the user.
const OPTIONS: [(&str, &str); 2] =
    [("--seconds", "LOCKKEEPER_STORM_SECONDS"), ("--seed", "LOCKKEEPER_SEED")];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let (name, variables) = read(args)?;
    install(root)?;
    let mut test = cargo(root);
    test.args(["test", "--workspace", "--all-features", "--locked", "--test", "storms", "--"]);
    test.arg(format!("{name}::")).arg("--nocapture").envs(variables);
    say(&test);
    Ok(exit_code(test.status().context("cargo cannot be run")?))
}

/// The storm, and its variables.
fn read(args: &[String]) -> Result<(&str, Vec<(&'static str, &str)>)> {
    let usage = || {
        format!(
            "Try: cargo xtask storm NAME --seconds N --seed S, with a NAME of {}",
            STORMS.join(", ")
        )
    };
    let mut args = args.iter().map(String::as_str);
    let name = args.next().with_context(usage)?;
    if !STORMS.contains(&name) {
        bail!("there is no storm {name:?}. {}", usage());
    }
    let mut variables = Vec::new();
    while let Some(option) = args.next() {
        let known = OPTIONS.iter().find(|(known, _)| *known == option);
        let (_, variable) = known.with_context(|| format!("what is {option:?}? {}", usage()))?;
        let value = args.next().with_context(|| format!("{option} needs a number. {}", usage()))?;
        let _: u64 = value
            .parse()
            .with_context(|| format!("{option} {value} is not a number. {}", usage()))?;
        variables.push((*variable, value));
    }
    Ok((name, variables))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_storm_is_named_with_its_length_and_its_seed() {
        let args = words("cluster --seconds 600 --seed 7");
        let (name, variables) = read(&args).unwrap();
        assert_eq!(name, "cluster");
        assert_eq!(variables, [("LOCKKEEPER_STORM_SECONDS", "600"), ("LOCKKEEPER_SEED", "7")]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_storms_that_there_are() {
        for wrong in
            ["", "clutser", "cluster --seconds", "cluster --seconds x", "cluster --minutes 1"]
        {
            let error = format!("{:#}", read(&words(wrong)).unwrap_err());
            assert!(
                error.contains("cluster, cluster_kills, etcd, file, redlock, sentinel"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_storm_is_a_file_of_the_program() {
        let folder = crate::root().unwrap().join("crates/live/tests/storms");
        for storm in STORMS {
            let text = std::fs::read_to_string(folder.join(storm).with_extension("rs")).unwrap();
            assert!(text.contains("is_played_here"), "{storm} plays no storm");
        }
    }
}
