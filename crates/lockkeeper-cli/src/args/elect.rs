//! `elect` as it was typed.

use clap::Args;

use super::CommandArgs;
use crate::child::restart::Restart;

/// Runs a command on one of several machines: on the one that is the leader
///
/// Every candidate waits for the leadership. The leader runs the command in the environment that
/// `run` gives to a command. When the leader is lost, the next candidate leads. A leader resigns
/// when its command has failed. After a resignation or a loss it is a candidate again in 1 to 30
/// seconds; this pause grows each time until a command has lasted for a minute. INT, TERM and QUIT
/// go to the command, and `elect` ends with the command. HUP, USR1 and USR2 change nothing while
/// `elect` waits or pauses.
#[derive(Args, Debug)]
pub(crate) struct ElectArgs {
    /// The election: the name of the lock that the leader holds
    ///
    /// A name has 1 to 255 bytes, prefix included, without control characters.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What `leader` prints, such as an address [default: the owner]
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,

    /// After which ends of the command to stand for election again
    ///
    /// A failure or the loss of the leadership, all ends, or none.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Restart::OnFailure)]
    pub(crate) restart: Restart,

    #[command(flatten)]
    pub(crate) under: CommandArgs,
}
