//! `run` as it was typed.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::MANUAL;
use crate::duration::{self, Limit};
use crate::exit::Exit;

/// Runs a command while holding a lock
///
/// The command gets LOCKKEEPER_FENCING_TOKEN, a number that rises with every grant of this lock: hand it on with
/// every access to what the lock protects. It is ended when the lock is lost (exit code 79).
#[derive(Args, Debug)]
#[command(after_long_help = MANUAL)]
pub(crate) struct RunArgs {
    /// The lock: 1 to 255 bytes, prefix included, without control characters
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Wait at most this long for the lock, a duration or `forever` [default: forever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse_limit)]
    pub(crate) wait: Option<Limit>,

    /// Do not wait at all: the same as --wait 0
    #[arg(short = 'n', long = "try", visible_alias = "nonblock", conflicts_with = "wait")]
    pub(crate) nonblocking: bool,

    /// The exit code when the lock was not acquired, 0 to 255
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::BUSY)]
    pub(crate) conflict_exit_code: u8,

    /// How long the lock outlives a holder that is gone; it is renewed every third of it [default: 30s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// How long the store keeps the lock of a holder that vanished in addition to the ttl, for what such a holder has
    /// already sent; a release is immediate [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lock_delay: Option<Duration>,

    /// Why it is held, for people who look
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Leave the store's credentials in the command's environment
    #[arg(long)]
    pub(crate) pass_credentials: bool,

    /// The command and its arguments, after `--`; no shell is involved
    #[arg(value_name = "CMD", last = true, required = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}
