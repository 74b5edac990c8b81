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

/// How `run` and `elect` wait for the lock and hold it, and which command runs under the lock.
#[derive(Args, Debug)]
pub(crate) struct CommandArgs {
    /// Wait at most this long: a duration or `forever` [default: forever]
    ///
    /// During the wait, stderr shows who holds the lock, for how long and why, and how many claims
    /// are ahead. On a terminal, this is one line that changes. Elsewhere, `run` and `elect` write
    /// a line at the start and when another holder gets the lock; `run` also writes a line every
    /// minute. With -q there are no such lines.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse_limit)]
    pub(crate) wait: Option<Limit>,

    /// The exit code when the lock was not acquired
    ///
    /// A number from 0 to 255. With 0, a busy lock causes no message on stderr.
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::BUSY, value_parser = exit_code)]
    pub(crate) conflict_exit_code: u8,

    /// Lease: how long the lock outlives a crashed holder [default: 30s]
    ///
    /// The holder renews the lease after each third of this time.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// Extra time to keep the lock of a crashed holder [default: 0]
    ///
    /// When the holder has crashed or lost the lock, the store keeps the lock for this long in
    /// addition to the ttl. Requests that the holder has sent can arrive in this time. A release is
    /// immediate.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lock_delay: Option<Duration>,

    /// Keep no place in the queue
    ///
    /// The claim is repeated when a holder releases the lock. It never overtakes a claim in the
    /// queue.
    #[arg(long)]
    pub(crate) unfair: bool,

    /// Keep the lock from others for at least this long after it was acquired
    ///
    /// The option is for a job that must run once although the clocks of several hosts differ. The
    /// store keeps the lock: `run` ends with its command, and a kill, a crash or a signal does not
    /// free the lock; `break` does. A store that shares its locks with other libraries (layout=)
    /// and a Redlock cannot keep the lock. `run` itself then stays until the time is over or a
    /// signal comes.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    pub(crate) min_hold: Duration,

    /// Hold the lock at most this long
    ///
    /// After this time the lock counts as lost, and the command is ended.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// What the command gets when the lock is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// What the command gets when somebody runs `request`
    ///
    /// One of the signals HUP, INT, QUIT, TERM, USR1 and USR2, or nothing with `ignore`. The
    /// request is written as an event in any case.
    #[arg(long, value_name = "SIGNAL|ignore", default_value = "ignore")]
    pub(crate) on_request: OnRequest,

    /// Grace period between TERM and KILL [default: 5s, at most ttl/3]
    ///
    /// If the store stops answering, the command gets TERM this long before the lease expires, and
    /// KILL just before the lease expires. If a signal ends the command, its other processes have
    /// the same grace period. At most a third of the ttl.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// Why the lock is held, shown by `inspect` and to waiters
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Write events as JSON Lines to descriptor N or to a file
    ///
    /// The events are appended to a file. A descriptor must be open. With --json, stderr gets the
    /// events as well.
    ///
    /// The command inherits the descriptor N. If the reader of N waits for the end of the events,
    /// close N in the command: sh -c 'exec CMD N>&-'
    #[arg(long, value_name = "fd:N|FILE", value_parser = OsStringValueParser::new().try_map(Target::parse))]
    pub(crate) events: Option<Target>,

    /// Write figures for the textfile collector of node exporter
    ///
    /// Each write replaces the whole file. An attempt that does not acquire the lock writes
    /// nothing.
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
