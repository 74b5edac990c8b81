//! What `run` and `elect` have in common, as it was typed: a command under a lock.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::child::policy::{OnLost, OnRequest};
use crate::duration::{self, Limit};
use crate::event::Target;
use crate::exit::Exit;

/// How the lock is waited for and held, and what runs under it.
#[derive(Args, Debug)]
pub(crate) struct CommandArgs {
    /// Wait at most this long for the lock, a duration or `forever` [default: forever]
    ///
    /// While it waits, stderr says who holds the lock, for how long and why, and how many are ahead: on a terminal in one
    /// line that changes; elsewhere in a line at the start, one when another holder has the lock, and, for `run`, one
    /// every minute. -q silences it.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse_limit)]
    pub(crate) wait: Option<Limit>,

    /// The exit code when the lock was not acquired, 0 to 255; with 0 nothing is said of it on stderr
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::BUSY, value_parser = exit_code)]
    pub(crate) conflict_exit_code: u8,

    /// How long the lock outlives a holder that is gone; it is renewed every third of it [default: 30s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// How long the store keeps the lock of a holder that vanished in addition to the ttl, for what such a holder has
    /// already sent; a release is immediate [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lock_delay: Option<Duration>,

    /// Take no place in line: try again whenever somebody lets go, and never overtake who stands in line
    #[arg(long)]
    pub(crate) unfair: bool,

    /// Hold the lock at least this long since it was acquired, as when the clocks of several crons differ; `run`
    /// returns only then, unless it gets a signal
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    pub(crate) min_hold: Duration,

    /// After this long the lock counts as lost, and the command is ended
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// What happens to the command when the lock is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// What the command gets when somebody asks for the lock (`lockkeeper request`): a signal, one of HUP, INT, QUIT, TERM,
    /// USR1 and USR2, or nothing with `ignore`; an event tells of it in any case
    #[arg(long, value_name = "SIGNAL|ignore", default_value = "ignore")]
    pub(crate) on_request: OnRequest,

    /// How long before the end of the lease a silent store counts as the loss of the lock, which leaves the command
    /// this long between TERM and KILL, as does an end by a signal what is left of the command; at most a third of the
    /// ttl [default: 5s, or a third of a shorter ttl]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// Why it is held, for people who look
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Write events as JSON Lines to this open descriptor (fd:N), or append them to this file; with --json, to stderr
    /// as well
    ///
    /// The command inherits an open descriptor N as every program does. Where its reader waits for the end, close it in
    /// the command: sh -c 'exec CMD N>&-'
    #[arg(long, value_name = "fd:N|FILE", value_parser = OsStringValueParser::new().try_map(Target::parse))]
    pub(crate) events: Option<Target>,

    /// Write figures of the run to this file, as a whole each time, for the textfile collector of node exporter
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) metrics_textfile: Option<PathBuf>,

    /// Leave the store's credentials in the command's environment
    #[arg(long)]
    pub(crate) pass_credentials: bool,

    /// The command and its arguments, after `--`; no shell is involved
    #[arg(value_name = "CMD", last = true, required = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("{text:?} is no exit code. Try: a number from 0 to 255"))
}
