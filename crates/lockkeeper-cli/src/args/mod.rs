//! The command line as it was typed. Nothing is looked up here; `settings` resolves.

mod bench;
mod break_lock;
mod command;
mod elect;
mod handle;
mod help;
mod look;
mod mode;
mod number;
mod request;
mod run;
mod shell;
mod stores;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::duration;

pub(crate) use bench::BenchArgs;
pub(crate) use break_lock::BreakArgs;
pub(crate) use command::CommandArgs;
pub(crate) use elect::ElectArgs;
pub(crate) use handle::{AcquireArgs, HandleArgs};
pub(crate) use help::help;
pub(crate) use look::{CheckArgs, InspectArgs, LeaderArgs, ListArgs, WatchArgs};
pub(crate) use mode::{ModeArgs, Permits};
pub(crate) use request::RequestArgs;
pub(crate) use run::RunArgs;
pub(crate) use shell::CompletionsArgs;
pub(crate) use usage::one_line;

pub(crate) const MANUAL: &str = "\
Durations: 500ms, 30s, 5m, 1h30m, 7d; a bare number is seconds; `forever` where a wait may last for ever.

Exit codes:
    0    ok
    1    \"no\": the lock is free (inspect, request) or was lost (renew, release),
         nobody leads (leader), the sequencer is stale (check), nothing to break
         (break), FAIL (doctor)
   64    usage
   69    store unavailable
   70    a bug
   71    the system has no descriptor, process or memory left for lockkeeper
   74    the answer could not be written to stdout
   75    not acquired
   77    denied
   78    configuration, URL, or not supported by the store
   79    the lock was lost while the command ran
  126    the command cannot be executed
  127    the command was not found
128+n    ended by signal n, which ends lockkeeper itself, too
 else    the command's own";

/// Runs commands under a distributed lock, and shows who holds which.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_long_help = MANUAL, max_term_width = 110)]
#[command(mut_subcommands(|command| command.after_long_help(MANUAL)))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes, before or after its name.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the locks are kept: a URL such as file:/var/lib/app/locks.db, or the name of a store
    /// of the configuration [env: LOCKKEEPER_STORE] [default: a file of this user on this host]
    #[arg(short = 'S', long, global = true, value_name = "URL|NAME", long_help = stores::help())]
    pub(crate) store: Option<String>,

    /// The configuration [env: LOCKKEEPER_CONFIG] [default: the first of
    /// $XDG_CONFIG_HOME/lockkeeper/config.toml and /etc/lockkeeper/config.toml]
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Plain text put before every NAME [env: LOCKKEEPER_PREFIX] [default: none]
    #[arg(long = "prefix", global = true, value_name = "P")]
    pub(crate) name_prefix: Option<String>,

    /// The holder's name, shown by `inspect` and `list`; not used for authentication [env:
    /// LOCKKEEPER_OWNER] [default: user@host:pid]
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// Give up with exit code 69 when the store cannot be reached for this long at the start
    /// [default: 5s; at least 10ms]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse_timeout)]
    pub(crate) connect_timeout: Option<Duration>,

    /// Make the missing folder of a file store; without this option, exit code 78
    #[arg(long, global = true)]
    pub(crate) create: bool,

    /// Answers as JSON on stdout, one object a line; `run` and `elect` write events as JSON Lines
    /// to stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// No warnings, only errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Write more to stderr; -vv writes everything [env: LOCKKEEPER_LOG, a level or a tracing
    /// filter] [default: warnings]
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Elect(ElectArgs),
    Leader(LeaderArgs),
    Acquire(AcquireArgs),
    /// Renews the lease of an acquired lock; exit code 1 when the lock was lost
    Renew(HandleArgs),
    /// Releases an acquired lock and deletes its handle file; exit code 1 when it was lost before
    Release(HandleArgs),
    Inspect(InspectArgs),
    List(ListArgs),
    Watch(WatchArgs),
    Check(CheckArgs),
    Break(BreakArgs),
    Request(RequestArgs),
    Bench(BenchArgs),
    /// Examines the store: rights, disk, clock, leftovers, round trip; exit code 1 when something
    /// fails
    ///
    /// `doctor` prints for each check: ok, warn or FAIL, the finding, and below it the remedy, in
    /// lines as wide as the terminal. It makes no store, and takes no lock except its own,
    /// lockkeeper-doctor.
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    /// Prints the manual page
    ///
    /// To read it: lockkeeper man | man -l -
    Man,
}

/// The options of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// First lets the servers of a new Redlock count at once
    ///
    /// A server of a Redlock may have forgotten locks when it was started, so it does not count for
    /// `max-keep` after it is seen for the first time. With --init you state that no lock was ever
    /// held there. A lock that is held may be given away again.
    #[arg(long)]
    pub(crate) init: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_come_before_or_after_the_command() {
        for line in
            ["lockkeeper -S file:x --json run a -- b", "lockkeeper run -S file:x a --json -- b"]
        {
            let cli = parse(line).unwrap();
            assert_eq!(cli.global.store.as_deref(), Some("file:x"));
            assert!(cli.global.json);
        }
    }

    #[test]
    fn arguments_after_the_dashes_are_the_commands() {
        let Command::Run(run) = parse("lockkeeper run a -- b --json -- -n").unwrap().command else {
            panic!()
        };
        assert_eq!(run.under.command, ["b", "--json", "--", "-n"]);
        assert!(!run.nonblocking);
    }

    #[test]
    fn what_comes_later_or_never_is_refused() {
        for line in [
            "lockkeeper",
            "lockkeeper elect a",
            "lockkeeper elect -- b",
            "lockkeeper elect a b -- c",
            "lockkeeper elect a -n -- b",
            "lockkeeper elect a --shared -- b",
            "lockkeeper elect a --restart sometimes -- b",
            "lockkeeper run a",
            "lockkeeper run a b",
            "lockkeeper run a --",
            "lockkeeper run -- b",
            "lockkeeper run --shared --permits 2 a -- b",
            "lockkeeper run --permits 3/2 a -- b",
            "lockkeeper acquire a --permits 0 --handle-file h",
            "lockkeeper run --events fd:x a -- b",
            "lockkeeper run -n -w 5 a -- b",
            "lockkeeper run -w soon a -- b",
            "lockkeeper run -t forever a -- b",
            "lockkeeper run -E 256 a -- b",
            "lockkeeper list --limit 0",
            "lockkeeper acquire a",
            "lockkeeper acquire --handle-file h",
            "lockkeeper acquire a -n -w 5 --handle-file h",
            "lockkeeper acquire a --handle-file h -- b",
            "lockkeeper renew",
            "lockkeeper release h",
            "lockkeeper break a --reason x",
            "lockkeeper break a --token 7",
            "lockkeeper break a --token 7 --id 0123456789abcdef --reason x",
            "lockkeeper break a --token 0 --reason x",
            "lockkeeper break a --id 123 --reason x",
            "lockkeeper -q -v list",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
