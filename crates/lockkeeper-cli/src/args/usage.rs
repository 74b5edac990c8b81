//! Errors of usage, in one line with a remedy, like all errors of lockkeeper.

mod options;

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use lockkeeper::url::nearest;

use super::Cli;
use crate::output::printable;

/// Names that other programs of this kind give to commands of lockkeeper.
const COMMANDS: [(&str, &str); 9] = [
    ("exec", "run"),
    ("lock", "run, or acquire for a lock over several steps"),
    ("flock", "run"),
    ("unlock", "release, or break for the lock of another holder"),
    ("status", "inspect"),
    ("show", "inspect"),
    ("ps", "list"),
    ("campaign", "elect"),
    ("force-unlock", "break"),
];

/// Turns clap's paragraphs into one line: the error, and the most likely intention.
///
/// `typed` is the typed command line, for errors that do not name their command.
pub(crate) fn one_line(error: &clap::Error, typed: impl IntoIterator<Item = OsString>) -> String {
    let typed: Vec<OsString> = typed.into_iter().collect();
    if let Some(line) = options::of_a_value_with_a_dash(error, &typed) {
        return line;
    }
    let problem = match error.kind() {
        ErrorKind::MissingRequiredArgument if last_of_a_run(&typed).is_some() => {
            let taken = last_of_a_run(&typed).unwrap_or_default();
            format!("there is no CMD: without -- before it, {taken:?} is taken for a lock")
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "a command is missing".to_owned()
        }
        _ => problem(error),
    };
    let line = if problem.contains("Try: ") {
        problem
    } else {
        format!("{problem}. Try: {}", remedy(error, typed))
    };
    printable(&line).into_owned()
}

/// The first paragraph.
fn problem(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    words(first.strip_prefix("error: ").unwrap_or(first))
}

fn remedy(error: &clap::Error, typed: Vec<OsString>) -> String {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return "UTF-8; only the words behind -- may have other bytes".to_owned();
    }
    if error.kind() == ErrorKind::ArgumentConflict {
        return of_what_excludes_each_other(error).to_owned();
    }
    if let Some(known) = known_elsewhere(error, &typed) {
        return known;
    }
    if let Some(command) = forgot_the_dashes(error, &typed) {
        return format!("{command} NAME -- CMD, with -- before the command");
    }
    let meant = match error.kind() {
        // What clap suggests for an option is often another word altogether.
        ErrorKind::UnknownArgument => options::nearest_option(error, &typed),
        _ => [ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
            .iter()
            .find_map(|kind| texts(error.get(*kind)?)),
    };
    if let Some(meant) = meant {
        return meant;
    }
    if error.kind() == ErrorKind::InvalidValue
        && let Some(valid) = error.get(ContextKind::ValidValue).and_then(texts)
    {
        return valid;
    }
    let Some(usage) = error.get(ContextKind::Usage).map(|usage| words(&usage.to_string())) else {
        return help_of(typed);
    };
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    if shows_the_form(error) {
        return usage.to_owned();
    }
    let command: Vec<_> =
        usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    format!("{} --help", command.join(" "))
}

fn of_what_excludes_each_other(error: &clap::Error) -> &'static str {
    match (error.get(ContextKind::InvalidArg), error.get(ContextKind::PriorArg)) {
        // An option that was typed twice.
        (Some(one), Some(other)) if one == other => "the option once",
        (_, Some(ContextValue::Strings(others))) if others.len() > 1 => "one of them",
        _ => "one of the two",
    }
}

/// The meaning of a word that other programs know, or of a common slip.
fn known_elsewhere(error: &clap::Error, typed: &[OsString]) -> Option<String> {
    let meant = |words: &[(&str, &str)], word: &str| {
        words.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| (*ours).to_owned())
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = error.get(ContextKind::InvalidSubcommand).and_then(texts)?;
            let commands = Cli::command();
            let names = commands.get_subcommands().map(clap::Command::get_name);
            meant(&COMMANDS, &word).or_else(|| nearest(&word, names).map(str::to_owned))
        }
        ErrorKind::UnknownArgument => options::known_elsewhere(error, typed),
        _ => None,
    }
}

/// The most likely command of a `run` without the dashes.
fn last_of_a_run(typed: &[OsString]) -> Option<String> {
    let words = typed.iter().skip_while(|word| *word != "run").skip(1);
    let is_run = typed.iter().any(|word| word == "run") && !typed.iter().any(|word| word == "--");
    let words: Vec<&OsString> =
        words.filter(|word| !word.to_string_lossy().starts_with('-')).collect();
    let last = words.last().filter(|_| is_run && words.len() > 1)?;
    Some(last.to_string_lossy().into_owned())
}

/// Finds the `run` or `elect` whose command has the refused option: the dashes before that command
/// are missing.
fn forgot_the_dashes(error: &clap::Error, typed: &[OsString]) -> Option<&'static str> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let is_missed =
        error.kind() == ErrorKind::MissingRequiredArgument && last_of_a_run(typed).is_some();
    let forgot = (is_missed || error.kind() == ErrorKind::UnknownArgument)
        && !typed.iter().any(|word| word == "--");
    ["lockkeeper run", "lockkeeper elect"]
        .into_iter()
        .find(|command| forgot && usage.contains(command))
}

/// The help of the command that was typed, or of all.
fn help_of(typed: Vec<OsString>) -> String {
    let commands = Cli::command();
    let typed = typed.into_iter().take_while(|word| word != "--");
    let command = typed
        .filter_map(|word| commands.find_subcommand(word).map(|command| command.get_name()))
        .next();
    command.map_or_else(
        || "lockkeeper --help".to_owned(),
        |command| format!("lockkeeper {command} --help"),
    )
}

/// Returns whether the form of the command is wrong, rather than an option or a value.
fn shows_the_form(error: &clap::Error) -> bool {
    match error.kind() {
        ErrorKind::MissingRequiredArgument => true,
        ErrorKind::UnknownArgument => error
            .get(ContextKind::InvalidArg)
            .and_then(texts)
            .is_some_and(|arg| !arg.starts_with('-')),
        _ => false,
    }
}

fn texts(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) if !texts.is_empty() => Some(texts.join(" or ")),
        _ => None,
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
