//! The errors of these layouts: about keys that hold something else.

use lockkeeper_redis_client::fault::{explained, short};

use super::layout::{Keys, Layout, claim_id, shown};
use crate::wire::WireError;
use crate::{Error, ErrorKind};

/// How a script says that it cannot make sense of what it has read.
const STRANGE: &str = "LKF";
/// How a script says that the counter of the tokens is none.
const STRANGE_COUNTER: &str = "LKCOUNT";
/// How a script says that programs take an `RLock` as an `RFencedLock`.
const FENCED: &str = "LKFENCED";
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
        STRANGE_COUNTER => Some(foreign(keys, keys.more(), message)),
        FENCED => Some(fenced(keys.more())),
        FEWER => {
            let problem = format!("the semaphore has {message} permits, fewer than this claim");
            Some(Error::new(ErrorKind::Mismatch, problem).with_remedy("addPermits of Redisson"))
        }
        "WRONGTYPE" => Some(foreign(keys, keys.main(), "a value of another type")),
        // The script has read a record that another program has written.
        "ERR" if is_at_a_loss(message) => {
            Some(foreign(keys, keys.side(), short(message)).with_unknown_effect())
        }
        _ => None,
    })
}

/// Tokens of two kinds would neither rise nor be unique.
fn fenced(counter: &[u8]) -> Error {
    let counter = String::from_utf8_lossy(counter);
    let problem =
        format!("programs use this name as an RFencedLock, and count its tokens in {counter}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "layout=redisson-fenced; or redis-cli DEL '{counter}' when no program uses RFencedLock any more"
    ))
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

/// The error about an administrator who wants more from another program than it does: only a
/// removal is possible.
pub(super) fn no_client(layout: Layout, owner: &[u8]) -> Error {
    let by = shown(owner);
    let problem = format!("{by} holds the lock without lockkeeper, so nothing can be asked of it");
    let id = claim_id(layout, owner).hash();
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "an end of that program, and then lockkeeper break NAME --id {id} --now --reason TEXT, \
         which removes its claim at once"
    ))
}
