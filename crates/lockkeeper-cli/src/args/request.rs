//! `request` as it was typed.

use clap::Args;

/// Asks the holders of a lock to let go, which takes the lock from nobody
///
/// Each holder hears who asks and why: a program by `release_requested()`, and `run` and `elect` by an event and by what
/// their --on-request says. The exit code is 1 when nobody holds the lock.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Why, which the holders are told together with our --owner
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}
