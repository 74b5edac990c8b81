//! The errors of these layouts: about keys that hold something else.

use std::time::Duration;

use lockkeeper_core::duration::format_duration;
use lockkeeper_redis_client::fault::{explained, short};

use super::layout::{ID_KEY, Keys};
use crate::wire::WireError;
use crate::{Error, ErrorKind};

/// How a script says that it cannot make sense of what it has read.
const STRANGE: &str = "LKF";
/// How a script says how many permits there are, fewer than a claim asks for.
const FEWER: &str = "LKFEW";

/// The error of a request, with what is known about its effect.
pub(super) fn of(error: WireError) -> Error {
    explained(error, |_, _| None)
}

/// The same for a request about these keys.
pub(super) fn about(error: WireError, keys: &Keys) -> Error {
    explained(error, |code, message| match code {
        STRANGE => Some(foreign(keys, keys.main(), message)),
        FEWER => Some(too_few_permits(message)),
        "WRONGTYPE" => Some(foreign(keys, keys.main(), "a value of another type")),
        // The script has read a record that another program has written.
        "ERR" if is_at_a_loss(message) => {
            Some(foreign(keys, keys.side(), short(message)).with_unknown_effect())
        }
        _ => None,
    })
}

/// Whether a script could not make sense of the data that it has read.
fn is_at_a_loss(message: &str) -> bool {
    let about_data = ["attempt to ", "bad argument", "is not an integer", "Bad data format"];
    message.contains("user_script") && about_data.iter().any(|words| message.contains(words))
}

/// The error about a key that holds something else than the layout has there.
pub(super) fn foreign(keys: &Keys, key: &[u8], what: &str) -> Error {
    let key = String::from_utf8_lossy(key);
    let lock = keys.layout().lock();
    let problem = format!("the key {key} holds {what}, which is not of {lock}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "the layout= of the program that holds the lock, or another name; redis-cli TYPE '{key}' shows what is there"
    ))
}

/// The error about a value of another program in the place of the store's id.
pub(super) fn foreign_id() -> Error {
    let problem = format!("the key {ID_KEY} holds something that lockkeeper has not written");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "redis-cli RENAME '{ID_KEY}' to another name, or another database for lockkeeper"
    ))
}

/// The error about a session whose claims the watchdog of a reader of Redisson would end.
pub(super) fn outlives_watchdog(watchdog: Duration) -> Error {
    let watchdog = format_duration(watchdog);
    let problem = format!(
        "a reader of Redisson lets the lock live for {watchdog}, so a ttl with its lock-delay cannot be longer"
    );
    Error::new(ErrorKind::Unsupported, problem).with_remedy(
        "a shorter ttl, or watchdog=60s in the URL, if lockWatchdogTimeout is so long in every Redisson",
    )
}

/// The error about a claim of more permits than Redisson has set.
fn too_few_permits(number: &str) -> Error {
    let problem =
        format!("the semaphore has {number} permits by Redisson, fewer than this claim has");
    Error::new(ErrorKind::Mismatch, problem)
        .with_remedy("the same number here, or addPermits of Redisson")
}

/// The error about a claim of more permits than a script may take at once.
pub(super) fn too_many_permits(most: u32) -> Error {
    let problem = format!("a claim of this layout has {most} permits at most");
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("several claims, or a layout of lockkeeper itself: the URL without layout=")
}

/// The error about an administrator who wants more from another program than it does.
pub(super) fn no_client(by: &str, remedy: &str) -> Error {
    let problem = format!("{by} holds the lock without lockkeeper, so nothing can be asked of it");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(remedy)
}
