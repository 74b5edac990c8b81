//! The help: one screen for a command, and the whole help on request.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Cli;

/// Replaces the options that every command has.
const REST: &str = "\
Options of every command: -S --config --prefix --owner --connect-timeout --create --json -q -v
All options in full, durations and exit codes: --help --all, or lockkeeper man";

/// The help that these arguments ask for.
pub(crate) fn help(args: &[String]) -> String {
    let mut whole = Cli::command();
    // After `--` come the words of another command.
    let args = args.split(|arg| arg == "--").next().unwrap_or_default();
    let name = command_of(&whole, args);
    let all = args.iter().any(|arg| arg == "--all");
    match name {
        Some(name) if all => {
            whole.build();
            whole.find_subcommand_mut(name).map(|command| command.render_long_help())
        }
        // As a command of its own, without its parent, it does not show the global options.
        Some(name) => {
            whole.find_subcommand(name).cloned().map(|command| brief(command).render_help())
        }
        None if all => Some(whole.render_long_help()),
        None => Some(whole.mut_args(|arg| arg.hide(true)).after_help(REST).render_help()),
    }
    .map(|text| text.to_string())
    .unwrap_or_default()
}

/// Finds the subcommand in these arguments, and does not mistake the value of an option for it.
fn command_of<'a>(whole: &Command, args: &'a [String]) -> Option<&'a String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if takes_the_next(whole, arg) {
            args.next();
        } else if arg != "help" && whole.find_subcommand(arg).is_some() {
            return Some(arg);
        }
    }
    None
}

/// Returns whether the next argument is the value of this argument: true for `--store`, `-S` and
/// `-qS`, but not for `--store=x` or `-Sx`.
fn takes_the_next(whole: &Command, arg: &str) -> bool {
    let mut valued = whole.get_arguments().filter(|option| option.get_action().takes_values());
    if let Some(long) = arg.strip_prefix("--") {
        return valued.any(|option| option.get_long() == Some(long));
    }
    let shorts: Vec<char> = valued.filter_map(clap::Arg::get_short).collect();
    let cluster = arg.strip_prefix('-').unwrap_or_default();
    cluster.find(|short| shorts.contains(&short)).is_some_and(|at| at + 1 == cluster.len())
}

fn brief(command: Command) -> Command {
    let name = format!("lockkeeper {}", command.get_name());
    let help = Arg::new("this help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print this help");
    command.bin_name(name).after_help(REST).max_term_width(100).disable_help_flag(true).arg(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        help(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_is_found_after_option_values_and_before_another_command() {
        for line in [
            "-S list run --help",
            "--store list run --help",
            "-qS list -v run -h",
            "run a --help -- list --all",
        ] {
            assert_eq!(of(line), of("run --help"), "{line}");
        }
        for line in ["-Slist run --help --all", "--store=list run --help --all"] {
            assert_eq!(of(line), of("run --help --all"), "{line}");
        }
    }

    #[test]
    fn the_help_of_each_command_fits_on_a_screen_and_points_to_the_rest() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let help = of(&format!("{name} --help"));
            assert!(help.lines().count() <= 40, "{name}: {} lines\n{help}", help.lines().count());
            assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
            assert!(
                help.contains(&format!("Usage: lockkeeper {name}"))
                    && help.ends_with(&format!("{REST}\n")),
                "{help}"
            );
        }
        let help = of("--help");
        assert!(
            help.lines().count() <= 40
                && help.contains("  elect ")
                && !help.contains("--connect-timeout <"),
            "{help}"
        );
    }

    #[test]
    fn the_whole_help_has_global_options_durations_and_exit_codes() {
        for command in Cli::command().get_subcommands() {
            let help = of(&format!("{} --help --all", command.get_name()));
            assert!(help.contains("--connect-timeout <DURATION>"), "{help}");
            assert!(
                help.contains("a bare number is seconds")
                    && help.contains("79    the lock was lost"),
                "{help}"
            );
        }
        assert!(of("--help --all").contains("79    the lock was lost"));
    }

    #[test]
    fn help_is_of_the_command_that_comes_first() {
        assert!(of("help run").contains("Usage: lockkeeper run"));
        assert!(of("run list --help").contains("Usage: lockkeeper run"));
    }

    #[test]
    fn the_options_of_every_command_are_all_named() {
        let mut whole = Cli::command();
        whole.build();
        for arg in whole.get_arguments().filter(|arg| arg.is_global_set()) {
            let (long, short) = (arg.get_long().unwrap_or_default(), arg.get_short());
            let is_named = REST.contains(&format!("--{long}"))
                || short.is_some_and(|s| REST.contains(&format!(" -{s}")));
            assert!(is_named, "--{long}");
        }
    }
}
