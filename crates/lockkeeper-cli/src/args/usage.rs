//! Errors of usage, in one line with a remedy, like all errors of lockkeeper.

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
/// The same of an option.
const OPTIONS: [(&str, &str); 9] = [
    ("--timeout", "--wait"),
    ("--lock-timeout", "--wait"),
    ("--no-wait", "--try"),
    ("--lease", "--ttl"),
    ("--lease-time", "--ttl"),
    ("--expire", "--ttl"),
    ("--name", "the name without an option before it"),
    ("--exclusive", "leave it out: a lock is exclusive without --shared and --permits"),
    ("--limit", "--permits, for how many may hold the lock"),
];

/// Turns clap's paragraphs into one line: the error, and the most likely intention.
///
/// `typed` is the typed command line, for errors that do not name their command.
pub(crate) fn one_line(error: &clap::Error, typed: impl IntoIterator<Item = OsString>) -> String {
    let typed: Vec<OsString> = typed.into_iter().collect();
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
    if let Some(known) = known_elsewhere(error) {
        return known;
    }
    if let Some(command) = forgot_the_dashes(error, &typed) {
        return format!("{command} NAME -- CMD, with -- before the command");
    }
    let suggested =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    if let Some(meant) = suggested.iter().find_map(|kind| texts(error.get(*kind)?)) {
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
fn known_elsewhere(error: &clap::Error) -> Option<String> {
    let meant = |words: &[(&str, &str)], word: &str| {
        words.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| (*ours).to_owned())
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = error.get(ContextKind::InvalidSubcommand).and_then(texts)?;
            let commands = Cli::command();
            let names = commands.get_subcommands().map(clap::Command::get_name);
            meant(&COMMANDS, &typed).or_else(|| nearest(&typed, names).map(str::to_owned))
        }
        ErrorKind::UnknownArgument => {
            let typed = error.get(ContextKind::InvalidArg).and_then(texts)?;
            let usage = error.get(ContextKind::Usage)?.to_string();
            match typed.as_str() {
                "-n" | "--try" | "--nonblock" if usage.contains("lockkeeper elect") => {
                    Some("--wait 0".to_owned())
                }
                _ => meant(&OPTIONS, &typed),
            }
        }
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
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn printed(line: &str) -> String {
        let args: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
        one_line(&Cli::try_parse_from(&args).unwrap_err(), args.iter().map(OsString::from))
    }

    fn assert_printed(expected: &[(&str, &str)]) {
        for (line, message) in expected {
            assert_eq!(printed(line), *message);
        }
    }

    #[test]
    fn the_likely_subcommand_is_the_remedy() {
        assert_printed(&[
            ("lockkeeper", "a command is missing. Try: lockkeeper --help"),
            ("lockkeeper insepct a", "unrecognized subcommand 'insepct'. Try: inspect"),
            ("lockkeeper rnu a -- b", "unrecognized subcommand 'rnu'. Try: run"),
            ("lockkeeper exec a -- b", "unrecognized subcommand 'exec'. Try: run"),
            ("lockkeeper status a", "unrecognized subcommand 'status'. Try: inspect"),
            (
                "lockkeeper frobnicate",
                "unrecognized subcommand 'frobnicate'. Try: lockkeeper --help",
            ),
        ]);
    }

    #[test]
    fn the_likely_option_is_the_remedy() {
        assert_printed(&[
            (
                "lockkeeper run --timeout 5 a -- b",
                "unexpected argument '--timeout' found. Try: --wait",
            ),
            ("lockkeeper run --lease 5 a -- b", "unexpected argument '--lease' found. Try: --ttl"),
            ("lockkeeper elect -n a -- b", "unexpected argument '-n' found. Try: --wait 0"),
            ("lockkeeper elect a --try -- b", "unexpected argument '--try' found. Try: --wait 0"),
            (
                "lockkeeper run a --reson x -- b",
                "unexpected argument '--reson' found. Try: --reason",
            ),
            (
                "lockkeeper list --colour",
                "unexpected argument '--colour' found. Try: lockkeeper list --help",
            ),
            (
                "lockkeeper inspect a b",
                "unexpected argument 'b' found. Try: lockkeeper inspect [OPTIONS] <NAME>",
            ),
        ]);
    }

    #[test]
    fn a_missing_double_dash_has_the_usage_as_its_remedy() {
        assert_printed(&[
            (
                "lockkeeper run x ./deploy.sh",
                "there is no CMD: without -- before it, \"./deploy.sh\" is taken for a lock. Try: lockkeeper run NAME -- CMD, \
                 with -- before the command",
            ),
            (
                "lockkeeper run a sh -c b",
                "unexpected argument '-c' found. Try: lockkeeper run NAME -- CMD, with -- before the command",
            ),
            (
                "lockkeeper elect a sh -c b",
                "unexpected argument 'sh' found. Try: lockkeeper elect NAME -- CMD, with -- before the command",
            ),
        ]);
        assert!(printed("lockkeeper run a").contains("-- <CMD>..."));
    }

    #[test]
    fn a_wrong_value_or_combination_is_refused_with_its_remedy() {
        assert_printed(&[
            (
                "lockkeeper run a -E abc -- b",
                "invalid value 'abc' for '--conflict-exit-code <N>': \"abc\" is no exit code. Try: a number from 0 to 255",
            ),
            (
                "lockkeeper inspect",
                "the following required arguments were not provided: <NAME>. Try: lockkeeper inspect <NAME>",
            ),
            (
                "lockkeeper list --limit 0",
                "invalid value '0' for '--limit <N>': 0 is not in 1..=4294967295. Try: lockkeeper list --help",
            ),
            (
                "lockkeeper run a --on-lost stop -- b",
                "invalid value 'stop' for '--on-lost <WHAT>' [possible values: term, kill, ignore]. Try: term or kill or ignore",
            ),
            (
                "lockkeeper run a -n -w 5 -- b",
                "the argument '--try' cannot be used with '--wait <DURATION>'. Try: one of the two",
            ),
            (
                "lockkeeper run a --once-per 1h -n -w 5 -- b",
                "the argument '--once-per <DURATION>' cannot be used with: --try --wait <DURATION>. Try: one of them",
            ),
            (
                "lockkeeper list --limit 1 --limit 2",
                "the argument '--limit <N>' cannot be used multiple times. Try: the option once",
            ),
            (
                "lockkeeper --json run a --ttl -- list",
                "a value is required for '--ttl <DURATION>' but none was supplied. Try: lockkeeper run --help",
            ),
        ]);
        assert_eq!(printed("lockkeeper run a -w 1x -- b").matches("Try: ").count(), 1);
    }

    #[test]
    fn what_was_typed_stays_in_its_line() {
        let error = Cli::try_parse_from(["lockkeeper", "a\n\nb\x1b[2J"]).unwrap_err();
        let line = one_line(&error, []);
        assert!(!line.contains(char::is_control) && line.contains("a"), "{line:?}");
    }
}
