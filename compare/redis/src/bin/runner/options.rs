//! What to measure, and for how long.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
usage: run [--quick] [--only KIND,…] [--json FILE] [PART…]

Measures lockkeeper and its peers on one Redis server, which it starts itself.

parts (alone, crowd and readers, unless named):
  alone    locks that nobody else wants: pairs per second, cost on the server
  crowd    8 and 64 clients on one lock: hand-offs, waits, fairness
  readers  the cost of a read lock among 100 readers
  held     10 000 and 100 000 locks renewed for a minute; about 10 minutes

options:
  --quick       a look at it in two minutes: too short for figures to quote
  --only A,B    only these kinds (and raw, of which the others are a share)
  --json FILE   raw figures, a line for each measurement (default: compare-redis.jsonl beside the programs)
  --programs D  where the programs are (set by `run`)
";

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Alone,
    Crowd,
    Readers,
    Held,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) parts: Vec<Part>,
    pub(crate) is_quick: bool,
    /// Empty: all.
    pub(crate) only: Vec<String>,
    pub(crate) json: PathBuf,
    pub(crate) programs: PathBuf,
}

impl Options {
    /// Nothing if only help was wanted.
    pub(crate) fn read() -> Result<Option<Self>> {
        let mut parts = Vec::new();
        let (mut is_quick, mut only, mut json) = (false, Vec::new(), None);
        let mut programs = std::env::current_exe()?.parent().context("this program has no directory")?.to_owned();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value. Try: run --help"));
            match arg.as_str() {
                "--quick" => is_quick = true,
                "--only" => only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => json = Some(value()?.into()),
                "--programs" => programs = value()?.into(),
                "alone" => parts.push(Part::Alone),
                "crowd" => parts.push(Part::Crowd),
                "readers" => parts.push(Part::Readers),
                "held" => parts.push(Part::Held),
                "-h" | "--help" => {
                    print!("{HELP}");
                    return Ok(None);
                }
                _ => bail!("there is no part or option {arg}. Try: run --help"),
            }
        }
        if parts.is_empty() {
            parts = vec![Part::Alone, Part::Crowd, Part::Readers];
        }
        let json = json.unwrap_or_else(|| programs.join("compare-redis.jsonl"));
        Ok(Some(Self { parts, is_quick, only, json, programs }))
    }
}
