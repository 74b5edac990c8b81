//! `request` as it was typed.

use clap::Args;

/// Asks the holders of a lock to let go; each holder keeps the lock until it releases it
///
/// Each holder gets the --owner and the --reason of `request`: a program through
/// `release_requested()`, and `run` and `elect` as an event. With --on-request, `run` and `elect`
/// also send a signal to the command. The exit code is 1 when nobody holds the lock.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Why the lock is wanted; the holders see this text and the --owner
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
}
