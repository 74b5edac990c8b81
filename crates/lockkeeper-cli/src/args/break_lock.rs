//! `break` as it was typed.

use clap::{ArgGroup, Args};
use lockkeeper::{FencingToken, IdHash};

/// Takes a lock from a holder that is stuck or gone
///
/// The holder's renewals are refused from now on, so it learns that it has lost its lock before anybody else gets it,
/// which is when its ttl and lock-delay have run out. Who waits instead of holding loses its place in line.
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

    /// Why, which the holder is told together with our --owner
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Give the lock away at once, although its holder may still believe in it for up to its ttl
    #[arg(long)]
    pub(crate) now: bool,
}
