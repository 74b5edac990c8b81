use clap::Parser;

use super::*;
use crate::args::Cli;

fn printed(line: &str) -> String {
    let args: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
    one_line(&Cli::try_parse_from(&args).unwrap_err(), args.iter().skip(1).map(OsString::from))
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
        ("lockkeeper frobnicate", "unrecognized subcommand 'frobnicate'. Try: lockkeeper --help"),
    ]);
}

#[test]
fn the_likely_option_is_the_remedy() {
    assert_printed(&[
        (
            "lockkeeper run --timeout 5 a -- b",
            "unexpected argument '--timeout' found. Try: --wait 5",
        ),
        ("lockkeeper run --lease=5s a -- b", "unexpected argument '--lease' found. Try: --ttl 5s"),
        (
            "lockkeeper run --of 3 a -- b",
            "unexpected argument '--of' found. Try: --permits 3, for how many may hold the lock",
        ),
        ("lockkeeper run --read a -- b", "unexpected argument '--read' found. Try: --shared"),
        (
            "lockkeeper acquire --read a --handle-file h",
            "unexpected argument '--read' found. Try: --shared",
        ),
        (
            "lockkeeper elect --read a -- b",
            "unexpected argument '--read' found. Try: lockkeeper elect --help",
        ),
        ("lockkeeper list --of 3", "unexpected argument '--of' found. Try: lockkeeper list --help"),
        (
            "lockkeeper --ttl 5s run a -- b",
            "unexpected argument '--ttl' found. Try: --ttl after the command: lockkeeper run --ttl",
        ),
        ("lockkeeper elect -n a -- b", "unexpected argument '-n' found. Try: --wait 0"),
        ("lockkeeper elect a --try -- b", "unexpected argument '--try' found. Try: --wait 0"),
        ("lockkeeper run a --reson x -- b", "unexpected argument '--reson' found. Try: --reason"),
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
fn a_value_with_a_dash_is_refused_as_a_value() {
    assert_printed(&[
        (
            "lockkeeper run a --ttl -5s -- b",
            "invalid value '-5s' for '--ttl <DURATION>': \"-5s\" is not a duration. Try: 500ms, 30s, 5m, 1h30m, 7d or seconds",
        ),
        (
            "lockkeeper run a -t -5s -- b",
            "invalid value '-5s' for '--ttl <DURATION>': \"-5s\" is not a duration. Try: 500ms, 30s, 5m, 1h30m, 7d or seconds",
        ),
        (
            "lockkeeper acquire a -w -1 --handle-file h",
            "invalid value '-1' for '--wait <DURATION>': \"-1\" is not a duration. Try: 500ms, 30s, 5m, 1h30m, 7d or seconds, \
             or forever",
        ),
        (
            "lockkeeper run a --permits -3 -- b",
            "invalid value '-3' for '--permits <[K/]N>': \"-3\" is no number of permits. Try: 5 for one of five, or 2/5 for \
             two of them",
        ),
        ("lockkeeper run a --reason -5 -- b", "unexpected argument '-5' found. Try: --reason=-5"),
        ("lockkeeper list -q -5", "unexpected argument '-5' found. Try: lockkeeper list --help"),
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
            "invalid value '0' for '--limit <N>': 0 is out of range. Try: a number above 0",
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
