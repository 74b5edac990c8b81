//! What to measure, and for how long.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const COMMON: &str = "\
options:
  --quick       a look at it in two minutes: too short for figures to quote
  --only A,B    only these kinds (and raw, of which the others are a share)
  --json FILE   raw figures, a line for each measurement (default: figures.jsonl beside the programs)
  --programs D  where the programs are (set by `run`)
";

/// What a comparison can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// All but the options that every comparison has.
    pub help: &'static str,
    /// All there are.
    pub parts: &'static [&'static str],
    /// Those that are measured if none is named.
    pub usual: &'static [&'static str],
    /// More options, each with a value.
    pub settings: &'static [&'static str],
}

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What to measure.
    pub parts: Vec<String>,
    /// For less time than figures need.
    pub is_quick: bool,
    /// Empty: all.
    pub only: Vec<String>,
    /// Where the raw figures go.
    pub json: PathBuf,
    /// Where the clients are.
    pub programs: PathBuf,
    /// What was said beside this.
    pub settings: HashMap<&'static str, String>,
}

impl Usage {
    /// Reads the arguments. Nothing if only help was wanted.
    ///
    /// # Errors
    ///
    /// There is no such option, or it has no value.
    pub fn read(self) -> Result<Option<Options>> {
        let (mut parts, mut settings) = (Vec::new(), HashMap::new());
        let (mut is_quick, mut only, mut json) = (false, Vec::new(), None);
        let mut programs =
            std::env::current_exe()?.parent().context("this program has no directory")?.to_owned();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().with_context(|| format!("{arg} needs a value. Try: run --help"));
            match arg.as_str() {
                "--quick" => is_quick = true,
                "--only" => only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => json = Some(value()?.into()),
                "--programs" => programs = value()?.into(),
                part if self.parts.contains(&part) => parts.push(part.to_owned()),
                "-h" | "--help" => {
                    print!("{}\n{COMMON}", self.help);
                    return Ok(None);
                }
                other => match self.settings.iter().find(|setting| **setting == other) {
                    Some(setting) => drop(settings.insert(*setting, value()?)),
                    None => bail!("there is no part or option {arg}. Try: run --help"),
                },
            }
        }
        if parts.is_empty() {
            parts = self.usual.iter().map(|part| (*part).to_owned()).collect();
        }
        let json = json.unwrap_or_else(|| programs.join("figures.jsonl"));
        Ok(Some(Options { parts, is_quick, only, json, programs, settings }))
    }
}
