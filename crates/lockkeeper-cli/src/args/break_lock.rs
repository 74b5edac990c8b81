//! `break` as it was typed.

use clap::{ArgGroup, Args};
use lockkeeper::{FencingToken, IdHash};

/// Takes a lock from a holder that is stuck or gone
///
/// From now on the store refuses the holder's renewals. The lock is free when the holder's ttl and
/// lock-delay have run out, so the holder learns of the loss before another holder gets the lock. A
/// waiter (--id) goes to the end of the queue, and its command still runs when its turn comes; end
/// the waiting process to remove the waiter.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("target").required(true))]
pub(crate) struct BreakArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The holder with this token, as inspect shows it
    #[arg(long, value_name = "N", group = "target")]
    pub(crate) token: Option<FencingToken>,

    /// The holder or waiter with this id, as inspect shows it
    #[arg(long, value_name = "HASH", group = "target")]
    pub(crate) id: Option<IdHash>,

    /// Why the lock is broken; the holder sees this text and the --owner of `break`
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Free the lock at once; the old holder may still work for up to its ttl
    #[arg(long)]
    pub(crate) now: bool,
}
