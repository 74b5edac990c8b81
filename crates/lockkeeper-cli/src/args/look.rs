//! The commands that only look, as they were typed.

use clap::Args;

/// Shows who holds a lock and who waits for it; exit code 1 when it is free
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Shows who leads in an election; exit code 1 when nobody does
///
/// Prints the value of the leader in one line: control characters and bytes that are no text are escaped (\n, \xff).
/// With --json a value that is no text is null, and stands in `value_base64`. Whoever holds the lock of this name alone
/// leads; a leader that is there for another reason than `elect` may have no value.
#[derive(Args, Debug)]
pub(crate) struct LeaderArgs {
    /// The election
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Lists the locks that are held or waited for
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only names that begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) starting_with: String,

    /// List at most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

/// Tells whether the grant that a sequencer speaks of still holds its lock; exit code 1 when it does not
///
/// A sequencer has the full name of its lock: no prefix is put before it.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The sequencer, as LOCKKEEPER_SEQUENCER has it, or `-` to read it from stdin
    #[arg(value_name = "SEQUENCER", allow_hyphen_values = true)]
    pub(crate) sequencer: String,
}

/// Tells who takes, leaves and waits for locks, as it happens, until INT or TERM
///
/// What is told is the difference between two looks, so what came and went between them is not seen, and nor is the
/// cause. A lock whose whole name is given is looked at as soon as it changes, where the store can tell; a prefix is
/// looked at every second.
///
/// Events: `held`, somebody holds the lock now; `free`, its last holder has gone; `left`, somebody else has gone (with
/// a token who held it, without one who waited); `queued`, somebody waits. What is there at the first look comes first.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// A lock, or a prefix of many followed by `*`
    #[arg(value_name = "NAME|PREFIX*", default_value = "*", hide_default_value = true)]
    pub(crate) subject: String,
}
