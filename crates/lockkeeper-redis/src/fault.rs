//! The errors of this layout: about its keys, and what other programs have written there.

use lockkeeper_redis_client::fault::{explained, foreign_id, short};

use super::layout::{ID_KEY, SESSION_KEYS};
use crate::wire::WireError;
use crate::{Error, ErrorKind};

/// The error of a request, with what is known about its effect.
pub(super) fn of(error: WireError) -> Error {
    about(error, "lk:{NAME}")
}

/// The same for a request about this key.
pub(super) fn about(error: WireError, key: &str) -> Error {
    explained(error, |code, message| of_data(code, message, key))
}

/// The error about the data that a script has found.
fn of_data(code: &str, message: &str, key: &str) -> Option<Error> {
    match code {
        "ERR" if message.contains(LAYOUT) => Some(unknown_layout(message, key)),
        // The scripts check the type of the main key themselves.
        "WRONGTYPE" => Some(foreign_beside(key, "a value of another type")),
        "ERR" if is_at_a_loss(message) => {
            Some(foreign_beside(key, short(message)).with_unknown_effect())
        }
        _ => None,
    }
}

/// How a script says that it does not know the layout of a value. The number follows.
const LAYOUT: &str = "lockkeeper layout ";

/// Whether a script could not make sense of the data that it has read.
fn is_at_a_loss(message: &str) -> bool {
    let is_in_a_script = message.contains("user_script") && !message.contains("half-way");
    let about_data = ["attempt to ", "bad argument", "is not an integer", "is not a valid float"];
    is_in_a_script && about_data.iter().any(|words| message.contains(words))
}

/// The error about a lock in a layout that this version does not write.
fn unknown_layout(message: &str, key: &str) -> Error {
    let said = message.split(LAYOUT).nth(1).unwrap_or_default();
    let (number, rest) =
        said.split_at(said.find(|c: char| !c.is_ascii_digit()).unwrap_or(said.len()));
    if number == "0" {
        let what = rest.trim_start_matches(" (").split(')').next().unwrap_or_default();
        return foreign(key, what);
    }
    let problem = format!("{key} is kept in layout {number}, and this version knows layout 2");
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("the version of lockkeeper that the other clients have")
}

/// The error about a key that another program has written. A client that held the lock before may
/// rely on it for a ttl still.
pub(super) fn foreign(key: &str, what: &str) -> Error {
    let problem = format!("the key {key} holds something that lockkeeper has not written: {what}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "redis-cli TYPE '{key}', and DEL of it if nobody needs it and nobody has held the lock for a ttl; or another \
         name or database"
    ))
}

/// The same for a request about a detached session, whose key is `key`.
pub(super) fn of_session(error: WireError, key: &str) -> Error {
    let is_key = |message: &str| message.contains(" key");
    let may_not = matches!(&error, WireError::Server { code, message, .. } if code == "NOPERM" && is_key(message));
    let error = about(error, key);
    if may_not { error.with_remedy(right_to_sessions()) } else { error }
}

/// The remedy for a user without the right to the keys of detached sessions.
pub(super) fn right_to_sessions() -> String {
    format!("ACL SETUSER NAME {SESSION_KEYS}, the right to the keys of detached sessions")
}

/// The same for the request of the store's id.
pub(super) fn of_id(error: WireError) -> Error {
    match error {
        WireError::Server { code, .. } if code == "WRONGTYPE" => {
            foreign_id(ID_KEY, "a value of another type")
        }
        error => of(error),
    }
}

/// The error about a side key that another program has written. Clients may hold the lock.
pub(super) fn foreign_beside(key: &str, what: &str) -> Error {
    let problem = format!(
        "one of the keys {key}:q, {key}:g (sorted sets) and {key}:w (a hash) holds something that lockkeeper has not \
         written: {what}"
    );
    Error::new(ErrorKind::Unsupported, problem).with_remedy(
        "redis-cli TYPE of each, and RENAME of the one that is wrong; others may hold the lock, so that its other keys \
         have to stay",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::Effect;
    use lockkeeper_redis_client::checks::SHOWN_RIGHTS;

    #[test]
    fn data_that_a_script_cannot_read_are_no_bug_of_lockkeeper() {
        let unpackable = "user_script:45: bad argument #2 to 'up' (data string too short) script: 00bc, on @user_script:45.";
        let lost = about(WireError::server("ERR", unpackable), "lk:{a}");
        assert_eq!((lost.kind(), lost.effect()), (ErrorKind::Unsupported, Effect::Unknown));
        let text = lost.to_string();
        assert!(
            text.contains("lk:{a}:w (a hash) holds something that lockkeeper has not written"),
            "{text}"
        );
        assert!(!text.contains("DEL"), "others may hold the lock: {text}");
    }

    /// The words of Redis 6.2 and 7.0, and of 7.2 and Valkey.
    #[test]
    fn who_may_not_touch_a_session_is_told_the_rule_of_its_keys() {
        let remedy = |message: &str| {
            of_session(WireError::server("NOPERM", message), "lk:s:{0}").remedy().map(str::to_owned)
        };
        let keys = [
            "this user has no permissions to access one of the keys used as arguments",
            "No permissions to access a key",
        ];
        for message in keys {
            assert!(remedy(message).is_some_and(|remedy| remedy.contains("~lk:s:{*")), "{message}");
        }
        let command = "this user has no permissions to run the 'evalsha' command";
        assert_eq!(remedy(command).as_deref(), Some(SHOWN_RIGHTS));
    }
}
