//! The rights that a user needs for the scripts of this layout.

use lockkeeper_redis_client::rights::{CHANNEL, KEY, Needed, Place};

/// The commands of the scripts. `SET` makes the key a string, so the server refuses most of the
/// others, but only after it has checked the rights.
pub(super) const INSIDE: [Needed; 17] = [
    ("set", &["SET", KEY, "", "PX", "1000"]),
    ("get", &["GET", KEY]),
    ("setrange", &["SETRANGE", KEY, "0", ""]),
    ("hdel", &["HDEL", KEY, "f"]),
    ("hget", &["HGET", KEY, "f"]),
    ("hgetall", &["HGETALL", KEY]),
    ("hset", &["HSET", KEY, "f", ""]),
    ("zadd", &["ZADD", KEY, "XX", "1", "m"]),
    ("zrange", &["ZRANGE", KEY, "0", "0"]),
    ("zrank", &["ZRANK", KEY, "m"]),
    ("zrem", &["ZREM", KEY, "m"]),
    ("zremrangebyscore", &["ZREMRANGEBYSCORE", KEY, "0", "0"]),
    ("zscore", &["ZSCORE", KEY, "m"]),
    ("pexpire", &["PEXPIRE", KEY, "1000"]),
    ("pexpireat", &["PEXPIREAT", KEY, "1"]),
    ("del", &["DEL", KEY]),
    ("publish", &["PUBLISH", CHANNEL, ""]),
];

/// What the requests of each connection are about.
pub(super) const TRIED: Place<'_> = Place::of("lk:{lockkeeper-rights}", "lk:w:lockkeeper-doctor");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::layout::commands;

    #[test]
    fn the_rule_has_what_the_scripts_call_and_nothing_else() {
        let inside: BTreeSet<_> =
            INSIDE.iter().map(|(word, _)| (*word).to_owned()).chain(["time".to_owned()]).collect();
        assert_eq!(commands(), inside);
    }
}
