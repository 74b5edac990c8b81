//! `acquire`, `renew` and `release` as they were typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::ModeArgs;
use crate::duration::{self, Limit};

/// Acquires a lock that outlives this program, for the steps of a job
///
/// Nobody renews the lock automatically. It expires one ttl after `acquire` or the last `renew`;
/// `release` ends it earlier. `acquire` prints the fencing token, a number that rises with every
/// grant of this lock.
#[derive(Args, Debug)]
pub(crate) struct AcquireArgs {
    /// The lock: 1 to 255 bytes, prefix included, without control characters
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Where to write the handle that `renew` and `release` need
    ///
    /// The handle is a secret, and only this user can read the file. The file must not exist yet.
    #[arg(long, value_name = "FILE")]
    pub(crate) handle_file: PathBuf,

    /// Wait at most this long for the lock, a duration or `forever` [default: forever]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse_limit)]
    pub(crate) wait: Option<Limit>,

    /// Do not wait for another holder: the same as --wait 0
    #[arg(short = 'n', long = "try", visible_alias = "nonblock", conflicts_with = "wait")]
    pub(crate) nonblocking: bool,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,

    /// How long the lock lasts after `acquire` and each `renew`
    #[arg(short, long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Why the lock is held, shown by `inspect` and to waiters
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

impl AcquireArgs {
    /// How long the attempt waits.
    pub(crate) fn limit(&self) -> Option<Limit> {
        if self.nonblocking { Some(Limit::For(Duration::ZERO)) } else { self.wait }
    }
}

/// What `renew` and `release` take.
#[derive(Args, Debug)]
pub(crate) struct HandleArgs {
    /// The file that `acquire` wrote; name the same store as for `acquire`
    #[arg(long, value_name = "FILE")]
    pub(crate) handle_file: PathBuf,
}
