//! Options that lockkeeper does not have: what they are called in lockkeeper, and values that look
//! like options.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser};
use lockkeeper::url::nearest;

use super::{one_line, problem, texts};
use crate::args::Cli;
use crate::output::printable;

/// The names of other programs for options of lockkeeper.
const OPTIONS: [(&str, &str); 18] = [
    ("--timeout", "--wait"),
    ("--lock-timeout", "--wait"),
    ("--no-wait", "--try"),
    ("--lease", "--ttl"),
    ("--lease-time", "--ttl"),
    ("--expire", "--ttl"),
    ("--name", "the name without an option before it"),
    ("--exclusive", "leave it out: a lock is exclusive without --shared and --permits"),
    ("--limit", "--permits, for how many may hold the lock"),
    ("--of", "--permits, for how many may hold the lock"),
    ("--count", "--permits, for how many may hold the lock"),
    ("--max", "--permits, for how many may hold the lock"),
    ("--slots", "--permits, for how many may hold the lock"),
    ("--read", "--shared"),
    ("--reader", "--shared"),
    ("--read-only", "--shared"),
    ("--write", "leave it out: a lock is exclusive without --shared and --permits"),
    ("--writer", "leave it out: a lock is exclusive without --shared and --permits"),
];

/// The meaning of an option that other programs have, or of a common slip.
pub(super) fn known_elsewhere(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let option = error.get(ContextKind::InvalidArg).and_then(texts)?;
    let usage = error.get(ContextKind::Usage)?.to_string();
    match option.as_str() {
        "-n" | "--try" | "--nonblock" if usage.contains("lockkeeper elect") => {
            Some("--wait 0".to_owned())
        }
        _ => {
            let (_, ours) = OPTIONS.iter().find(|(theirs, _)| *theirs == option)?;
            with_its_value(ours, &option, typed)
        }
    }
}

/// The remedy, with the value that was typed for the unknown option. `None` if the remedy is an
/// option that the typed command does not have.
fn with_its_value(remedy: &str, option: &str, typed: &[OsString]) -> Option<String> {
    let (ours, why) = remedy.split_once(',').unwrap_or((remedy, ""));
    let Some(long) = ours.strip_prefix("--") else { return Some(remedy.to_owned()) };
    let command = command_of(typed)?;
    let ours_takes_values = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(long))
        .map(|arg| arg.get_action().takes_values())?;
    let comma = if why.is_empty() { "" } else { "," };
    let value = value_of(option, typed).filter(|_| ours_takes_values);
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    Some(format!("{ours}{value}{comma}{why}"))
}

/// The value that was typed for an option.
fn value_of(option: &str, typed: &[OsString]) -> Option<String> {
    let mut words = typed.iter().map(|word| word.to_string_lossy());
    let attached = |word: &str| word.strip_prefix(option)?.strip_prefix('=').map(str::to_owned);
    let found = words.find(|word| word == option || attached(word).is_some())?;
    attached(&found)
        .or_else(|| Some(words.next()?.into_owned()).filter(|next| !next.starts_with('-')))
}

/// The command that was typed, with the options that all commands have.
fn command_of(typed: &[OsString]) -> Option<clap::Command> {
    let mut commands = Cli::command();
    commands.build();
    let typed = typed.iter().take_while(|word| *word != "--");
    typed.filter_map(|word| commands.find_subcommand(word)).next().cloned()
}

/// The option of the typed command that is spelled almost like the unknown one.
pub(super) fn nearest_option(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let unknown = error.get(ContextKind::InvalidArg).and_then(texts)?;
    let (unknown, command) = (unknown.strip_prefix("--")?, command_of(typed)?);
    let options = command.get_arguments().filter_map(clap::Arg::get_long);
    let meant = nearest(unknown, options)?;
    Some(match meant == unknown {
        true => format!("--{meant} after the command: lockkeeper {} --{meant}", command.get_name()),
        false => format!("--{meant}"),
    })
}

/// The line for a value such as in `--ttl -5s`, which clap takes for an option: what the option
/// says of the value.
pub(super) fn of_a_value_with_a_dash(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let unknown = error.get(ContextKind::InvalidArg).and_then(texts)?;
    if !unknown.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let words = typed.iter().take_while(|word| *word != "--").map(|word| word.to_str());
    let words = words.collect::<Option<Vec<&str>>>()?;
    let at = words.iter().position(|word| word.starts_with(&unknown))?;
    let option = *words.get(at.checked_sub(1)?)?;
    let equals = if option.starts_with("--") { "=" } else { "" };
    let joined = OsString::from(format!("{option}{equals}{}", words[at]));
    let mut again = typed.to_vec();
    again.splice(at - 1..=at, [joined.clone()]);
    let program = [OsString::from("lockkeeper")].into_iter();
    match Cli::try_parse_from(program.chain(again.iter().cloned())) {
        Ok(_) => {
            let line = format!("{}. Try: {}", problem(error), joined.display());
            Some(printable(&line).into_owned())
        }
        Err(error) if error.kind() == ErrorKind::ValueValidation => Some(one_line(&error, again)),
        Err(_) => None,
    }
}
