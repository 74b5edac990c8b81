//! `lockkeeper completions SHELL`: the script with which a shell completes lockkeeper's options.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{Exit, Failure};
use crate::output::answer;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lockkeeper", &mut script);
    answer(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
