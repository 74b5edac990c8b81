//! `run` as it was typed.

use clap::Args;

use super::{CommandArgs, ModeArgs};

/// Runs a command while holding a lock
///
/// The command gets LOCKKEEPER_FENCING_TOKEN, a number that rises with every grant of this lock: hand it on with
/// every access to what the lock protects. It is ended when the lock is lost (exit code 79).
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The lock; of several locks, all are held or none
    ///
    /// A name has 1 to 255 bytes, prefix included, without control characters.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Do not wait: the same as --wait 0
    #[arg(short = 'n', long = "try", visible_alias = "nonblock", conflicts_with = "wait")]
    pub(crate) nonblocking: bool,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,

    #[command(flatten)]
    pub(crate) under: CommandArgs,
}
