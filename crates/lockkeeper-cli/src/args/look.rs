//! The commands that only look, as they were typed.

use clap::Args;

use super::number;

/// Shows who holds a lock and who waits for it; exit code 1 when it is free
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Shows who leads in an election; exit code 1 when nobody does
///
/// Prints the value of the leader in one line. Control characters and bytes that are no text are
/// escaped (\n, \xff). With --json, a value that is no text is null, and `value_base64` has its
/// bytes. The leader is the exclusive holder of the lock NAME. A holder that does not come from
/// `elect` may have no value.
#[derive(Args, Debug)]
pub(crate) struct LeaderArgs {
    /// The election
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Lists the locks that are held or waited for
///
/// OLDEST is how long the first of the waiters has waited. HELD is how long the lock has been held;
/// of several holders, OWNER is the one that has held it longest.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only names that begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) starting_with: String,

    /// List at most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = number::above_0)]
    pub(crate) limit: u32,
}

/// Checks whether the grant in a sequencer still holds its lock; exit code 1 when it does not
///
/// A sequencer has the full name of its lock; `check` puts no prefix before this name.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The sequencer, as LOCKKEEPER_SEQUENCER has it, or `-` to read it from stdin
    #[arg(value_name = "SEQUENCER", allow_hyphen_values = true)]
    pub(crate) sequencer: String,
}

/// Prints who takes, leaves and waits for locks, as it happens, until INT or TERM
///
/// `watch` prints the differences between two looks at the locks. It misses a claim that came and
/// went between two looks, and does not know the cause of a change. With a whole name, `watch`
/// looks as soon as the lock changes, if the store reports changes. With a prefix, `watch` looks
/// every second.
///
/// Events: `held`: a claim holds the lock now; `free`: the last holder is gone; `left`: another
/// holder (with a token) or a waiter (without a token) is gone; `queued`: a claim waits. The first
/// look prints all present holders and waiters.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// A lock, or a prefix of several locks followed by `*`
    #[arg(value_name = "NAME|PREFIX*", default_value = "*", hide_default_value = true)]
    pub(crate) subject: String,
}
