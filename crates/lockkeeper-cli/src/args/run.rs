//! `run` as it was typed.

use std::time::Duration;

use clap::Args;

use super::{CommandArgs, ModeArgs};
use crate::duration;

/// Runs a command while holding a lock
///
/// The command gets LOCKKEEPER_FENCING_TOKEN, a number that rises with every grant of this lock:
/// send it with every access to the protected resource. `run` ends the command when the lock is
/// lost (exit code 79).
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The lock; with several names, `run` holds all locks or none
    ///
    /// A name has 1 to 255 bytes, prefix included, without control characters.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Do not wait for another holder: the same as --wait 0
    #[arg(short = 'n', long = "try", visible_alias = "nonblock", conflicts_with = "wait")]
    pub(crate) nonblocking: bool,

    /// Run at most once in this time, on all hosts together
    ///
    /// If CMD runs already, or began to run within this time, `run` exits with 0 and does not start
    /// CMD. A CMD that failed counts too. The option is the same as -n -E 0 --min-hold DURATION on
    /// a store that keeps the lock without a process.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration::parse,
        conflicts_with_all = ["wait", "nonblocking", "conflict_exit_code", "min_hold"]
    )]
    pub(crate) once_per: Option<Duration>,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,

    #[command(flatten)]
    pub(crate) under: CommandArgs,
}
