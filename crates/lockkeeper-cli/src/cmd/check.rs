//! `lockkeeper check SEQUENCER`: whether a grant still holds its lock.

use std::io::{self, Read};

use lockkeeper::{Keeper, Sequencer};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::{answer, json_line};
use crate::settings::Settings;

/// Longer than any sequencer: a name of 255 bytes, each percent-encoded, and the fields before it.
const LONGEST: u64 = 1024;

#[derive(Serialize)]
struct Report {
    valid: bool,
    current_token: Option<String>,
}

/// Prints `valid` or `stale`; a stale one is a "no".
pub(crate) async fn check(args: &CheckArgs, settings: &Settings) -> Result<Exit, Failure> {
    let sequencer = read(&args.sequencer)?;
    let keeper = lock::look(settings, Terms { whole_names: true, ..Terms::default() }).await?;
    let valid = keeper.check_sequencer(&sequencer).await?;
    let text = if settings.json {
        let current_token = if valid {
            Some(sequencer.token().to_string())
        } else {
            current_token(&keeper, &sequencer).await?
        };
        json_line(&Report { valid, current_token })?
    } else if valid {
        "valid\n".to_owned()
    } else {
        "stale\n".to_owned()
    };
    answer(&text)?;
    Ok(if valid { Exit::Ok } else { Exit::No })
}

fn read(argument: &str) -> Result<Sequencer, Failure> {
    if argument != "-" {
        return argument.parse().map_err(Failure::usage);
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::usage(format!(
            "the sequencer cannot be read from stdin: {error}. Try: the text of LOCKKEEPER_SEQUENCER, or an argument"
        ))
    })?;
    text.trim_end().parse().map_err(Failure::usage)
}

/// The token of the current holder, the highest of several; `None` without a holder.
async fn current_token(keeper: &Keeper, sequencer: &Sequencer) -> Result<Option<String>, Failure> {
    let info = keeper.inspect(sequencer.name().clone()).await?;
    let current = info.holders.iter().filter_map(|holder| holder.token).max();
    Ok(current.map(|token| token.to_string()))
}
