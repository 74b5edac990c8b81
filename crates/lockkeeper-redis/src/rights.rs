//! The rights that a user needs, and the requests that try them without a visible effect.

use super::setup::{Setup, Topology};
use super::wire::{Request, Trial, is_unknown_command};
use crate::random;

/// A command in the words of an access rule, and the request that tries it.
pub(super) type Needed = (&'static str, &'static [&'static str]);

/// Stands for a key that no client has.
pub(super) const KEY: &str = "KEY";
/// A channel to which no client listens.
pub(super) const CHANNEL: &str = "lk:w:lockkeeper-doctor";
/// The commands that a client sends itself.
pub(super) const OUTSIDE: [Needed; 8] = [
    ("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "1", KEY]),
    ("script|load", &["SCRIPT", "LOAD", "return 1"]),
    ("info", &["INFO", "server"]),
    ("ping", &["PING"]),
    ("scan", &["SCAN", "0", "MATCH", KEY, "COUNT", "1"]),
    ("subscribe", &[]),
    ("unsubscribe", &[]),
    ("time", &["TIME"]),
];

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

const IN_A_CLUSTER: [Needed; 2] =
    [("asking", &["ASKING"]), ("cluster|slots", &["CLUSTER", "SLOTS"])];

/// The commands for messages to the shards of a cluster: Redis 7 and later.
const IN_SHARDS: [Needed; 3] =
    [("spublish", &["SPUBLISH", CHANNEL, ""]), ("ssubscribe", &[]), ("sunsubscribe", &[])];

/// All commands that a user needs. `shards`: messages go to the shards of a cluster.
pub(super) fn needed(setup: &Setup, shards: bool) -> Vec<Needed> {
    let mut needed: Vec<Needed> = OUTSIDE.into_iter().chain(INSIDE).collect();
    if setup.db != 0 {
        needed.push(("select", &[]));
    }
    if setup.min_replicas != 0 {
        needed.push(("wait", &["WAIT", "0", "1"]));
    }
    if setup.topology == Topology::Cluster {
        needed.extend(IN_A_CLUSTER);
    }
    if shards {
        needed.extend(IN_SHARDS);
    }
    needed
}

/// What each connection tries before the store uses it: to call scripts, and the commands of the
/// scripts. If the server refuses one of these commands, a script changes nothing
/// (`lua/write.lua`), so no request would succeed. Without the right to publish no waiter would get
/// a message.
pub(super) fn trials(setup: &Setup) -> Vec<Trial> {
    // Each connection has a key of its own, since several may be made at once.
    let key = format!("lk:{{lockkeeper-rights}}:{:016x}", random::below(u64::MAX));
    let calls = OUTSIDE.iter().filter(|(word, _)| ["evalsha", "script|load"].contains(word));
    // A server that has the command publishes to shards.
    let shards = IN_SHARDS
        .iter()
        .filter(|(_, words)| setup.topology == Topology::Cluster && !words.is_empty());
    let of = |may_be_unknown| {
        let key = key.clone();
        move |(word, words): &Needed| Trial { word, request: request(words, &key), may_be_unknown }
    };
    calls.chain(&INSIDE).map(of(false)).chain(shards.map(of(true))).collect()
}

pub(super) fn request(words: &[&'static str], key: &str) -> Request {
    let word = |word: &&'static str| if *word == KEY { key.as_bytes() } else { word.as_bytes() };
    Request::command(&words.iter().map(word).collect::<Vec<_>>())
}

/// Whether the user lacks the right, or the server (or a proxy before it) lacks the command.
pub(super) fn is_refusal(code: &str, message: &str) -> bool {
    code == "NOPERM" || is_unknown_command(code, message)
}

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

    #[test]
    fn a_server_that_refuses_is_distinguished_from_one_that_cannot() {
        assert!(is_refusal("NOPERM", "this user has no permissions to run the 'get' command"));
        assert!(is_refusal("ERR", "unknown command 'SCAN', with args beginning with: "));
        assert!(!is_refusal(
            "WRONGTYPE",
            "Operation against a key holding the wrong kind of value"
        ));
        assert!(!is_refusal("MOVED", "1 10.0.0.1:6379"));
    }
}
