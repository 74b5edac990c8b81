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
    /// Wait at most this long: a duration or `forever` [default: forever]
    ///
    /// While it waits, stderr says who holds the lock, for how long and why, and how many claims are ahead: on a
    /// terminal in one line that changes; elsewhere in a line at the start, in one when another holder has the lock,
    /// and, for `run`, in one every minute. -q silences it.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse_limit)]
    pub(crate) wait: Option<Limit>,

    /// The exit code when the lock was not acquired
    ///
    /// A number from 0 to 255. With 0, stderr says nothing of it.
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::BUSY, value_parser = exit_code)]
    pub(crate) conflict_exit_code: u8,

    /// The lease: how long the lock outlives a lost holder [default: 30s]
    ///
    /// The holder renews the lease three times in that time.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// Grace period after a lost lease, when nobody gets the lock [default: 0]
    ///
    /// The store keeps the lock of a lost holder for this long in addition to the ttl, so that what the holder has sent
    /// can arrive. A release is immediate.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lock_delay: Option<Duration>,

    /// Keep no place in the queue
    ///
    /// The claim is tried again when a holder releases the lock. It never overtakes a claim that stands in the queue.
    #[arg(long)]
    pub(crate) unfair: bool,

    /// Keep the lock from others for at least this long after it was acquired
    ///
    /// So that several crons whose clocks differ run a job once. The store keeps the lock: `run` ends with its command,
    /// and a kill, a crash or a signal ends nothing; `break` does. On a store that cannot (etcd with layout=concurrency),
    /// `run` itself stays until the time is over or it gets a signal.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    pub(crate) min_hold: Duration,

    /// Hold the lock at most this long
    ///
    /// Then the lock counts as lost, and the command is ended.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// What the command gets when the lock is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// What the command gets when somebody runs `request`
    ///
    /// One of the signals HUP, INT, QUIT, TERM, USR1 and USR2, or nothing with `ignore`. An event tells of the request
    /// in any case.
    #[arg(long, value_name = "SIGNAL|ignore", default_value = "ignore")]
    pub(crate) on_request: OnRequest,

    /// Time from SIGTERM to SIGKILL [default: 5s, at most ttl/3]
    ///
    /// If the store stops answering, the command gets SIGTERM this long before the lease expires, and SIGKILL when the
    /// lease expires. After an end by a signal, what is left of the command has as long to end. At most a third of the
    /// ttl.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// Why the lock is held, for `inspect`, `list` and those who wait
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Write events as JSON Lines to descriptor N or to a file
    ///
    /// A file is appended to; a descriptor must be open. With --json, stderr gets the events as well.
    ///
    /// The command inherits an open descriptor N as every program does. Where its reader waits for the end, close it in
    /// the command: sh -c 'exec CMD N>&-'
    #[arg(long, value_name = "fd:N|FILE", value_parser = OsStringValueParser::new().try_map(Target::parse))]
    pub(crate) events: Option<Target>,

    /// Write figures for the textfile collector of node exporter
    ///
    /// The file is replaced as a whole each time.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) metrics_textfile: Option<PathBuf>,

    /// Leave the store's credentials in the command's environment
    #[arg(long)]
    pub(crate) pass_credentials: bool,

    /// The command and its arguments; no shell is involved
    #[arg(value_name = "CMD", last = true, required = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

fn exit_code(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("{text:?} is no exit code. Try: a number from 0 to 255"))
}
