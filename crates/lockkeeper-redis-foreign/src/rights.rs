//! The rights that a user needs for the scripts of these layouts.

use lockkeeper_redis_client::rights::{CHANNEL, KEY, Needed};

/// The commands of the scripts. `SET` makes the key a string, so the server refuses most of the
/// others, but only after it has checked the rights.
pub(super) const INSIDE: [Needed; 25] = [
    ("set", &["SET", KEY, "", "PX", "1000"]),
    ("get", &["GET", KEY]),
    ("exists", &["EXISTS", KEY]),
    ("pttl", &["PTTL", KEY]),
    ("pexpire", &["PEXPIRE", KEY, "1000"]),
    ("type", &["TYPE", KEY]),
    ("incr", &["INCR", KEY]),
    ("incrby", &["INCRBY", KEY, "1"]),
    ("decrby", &["DECRBY", KEY, "1"]),
    ("hdel", &["HDEL", KEY, "f"]),
    ("hexists", &["HEXISTS", KEY, "f"]),
    ("hget", &["HGET", KEY, "f"]),
    ("hgetall", &["HGETALL", KEY]),
    ("hkeys", &["HKEYS", KEY]),
    ("hlen", &["HLEN", KEY]),
    ("hmget", &["HMGET", KEY, "f"]),
    ("hset", &["HSET", KEY, "f", ""]),
    ("zadd", &["ZADD", KEY, "XX", "1", "m"]),
    ("zcard", &["ZCARD", KEY]),
    ("zrange", &["ZRANGE", KEY, "0", "0"]),
    ("zrangebyscore", &["ZRANGEBYSCORE", KEY, "0", "0"]),
    ("zrem", &["ZREM", KEY, "m"]),
    ("zscore", &["ZSCORE", KEY, "m"]),
    ("del", &["DEL", KEY]),
    ("publish", &["PUBLISH", CHANNEL, ""]),
];

/// A key that no client has.
pub(super) const TRIED: &str = "lkf:{lockkeeper-rights}";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::layout::commands;

    #[test]
    fn the_rule_has_what_the_scripts_call_and_nothing_else() {
        let mut inside = commands();
        // `time` is one of the commands that a client sends itself, and `publish` is in a variable.
        assert!(inside.remove("time"));
        inside.extend(["publish", "type"].map(str::to_owned));
        let listed: BTreeSet<_> = INSIDE.iter().map(|(word, _)| (*word).to_owned()).collect();
        assert_eq!(inside, listed);
    }
}
