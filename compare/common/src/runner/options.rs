//! The parts to measure, and for how long.

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

/// The options of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The help without the options of every comparison.
    pub help: &'static str,
    /// All parts.
    pub parts: &'static [&'static str],
    /// The parts that run if none is named.
    pub usual: &'static [&'static str],
    /// More options, each with a value.
    pub settings: &'static [&'static str],
}

/// The options of this run.
#[derive(Debug)]
pub struct Options {
    /// The parts to measure.
    pub parts: Vec<String>,
    /// Whether to measure for a short time, which is too short for figures.
    pub is_quick: bool,
    /// The clients to measure; all if empty.
    pub only: Vec<String>,
    /// The file for the raw figures.
    pub json: PathBuf,
    /// The folder of the clients.
    pub programs: PathBuf,
    /// The further options.
    pub settings: HashMap<&'static str, String>,
}

impl Usage {
    /// Reads the arguments. `None` if the user only asked for help.
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
