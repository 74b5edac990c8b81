//! The rights that a user needs, and the requests that try them without a visible effect.

use crate::checks::Check;
use crate::random;
use crate::setup::{Deployment, Setup};
use crate::wire::{Request, Trial, is_unknown_command};

/// A command in the words of an access rule, and the request that tries it.
pub type Needed = (&'static str, &'static [&'static str]);

/// Stands for a key that no client has.
pub const KEY: &str = "KEY";
/// Stands for a channel to which no client listens.
pub const CHANNEL: &str = "CHANNEL";

/// What the requests of a store are about. A narrow access rule allows the keys and channels of the
/// store only.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A key of the store that no client has.
    pub key: &'a str,
    /// A channel of the store to which no client listens.
    pub channel: &'a str,
}

impl<'a> Place<'a> {
    /// This key and this channel.
    pub const fn of(key: &'a str, channel: &'a str) -> Self {
        Self { key, channel }
    }

    /// The same channel, and another key.
    pub const fn at<'b>(self, key: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        Place { key, channel: self.channel }
    }
}

/// The commands that a client sends itself.
pub const OUTSIDE: [Needed; 8] = [
    ("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "1", KEY]),
    ("script|load", &["SCRIPT", "LOAD", "return 1"]),
    ("info", &["INFO", "server"]),
    ("ping", &["PING"]),
    ("scan", &["SCAN", "0", "MATCH", KEY, "COUNT", "1"]),
    ("subscribe", &[]),
    ("unsubscribe", &[]),
    ("time", &["TIME"]),
];

const IN_A_CLUSTER: [Needed; 2] =
    [("asking", &["ASKING"]), ("cluster|slots", &["CLUSTER", "SLOTS"])];

/// The commands for messages to the shards of a cluster: Redis 7 and later.
const IN_SHARDS: [Needed; 3] =
    [("spublish", &["SPUBLISH", CHANNEL, ""]), ("ssubscribe", &[]), ("sunsubscribe", &[])];

/// All commands that a user needs, with those of the store's scripts (`inside`). `shards`: messages
/// go to the shards of a cluster.
pub fn needed(setup: &Setup, inside: &[Needed], shards: bool) -> Vec<Needed> {
    let mut needed: Vec<Needed> = OUTSIDE.iter().chain(inside).copied().collect();
    if setup.db != 0 {
        needed.push(("select", &[]));
    }
    if setup.min_replicas != 0 {
        needed.push(("wait", &["WAIT", "0", "1"]));
    }
    if setup.topology == Deployment::Cluster {
        needed.extend(IN_A_CLUSTER);
    }
    if shards {
        needed.extend(IN_SHARDS);
    }
    needed
}

/// What each connection tries before the store uses it: to call scripts, and the commands of the
/// scripts (`inside`). If the server refuses one of these commands, no request would succeed.
/// Without the right to publish no waiter would get a message. None, if the setup waives the check.
pub fn trials(setup: &Setup, inside: &[Needed], place: Place<'_>) -> Vec<Trial> {
    if setup.waived.contains(&Check::Rights) {
        return Vec::new();
    }
    // Each connection has a key of its own, since several may be made at once.
    let key = format!("{}:{:016x}", place.key, random::below(u64::MAX));
    let calls = OUTSIDE.iter().filter(|(word, _)| ["evalsha", "script|load"].contains(word));
    // A server that has the command publishes to shards.
    let shards = IN_SHARDS
        .iter()
        .filter(|(_, words)| setup.topology == Deployment::Cluster && !words.is_empty());
    let of = |may_be_unknown| {
        let place = place.at(&key);
        move |(word, words): &Needed| Trial { word, request: request(words, place), may_be_unknown }
    };
    calls.chain(inside).map(of(false)).chain(shards.map(of(true))).collect()
}

/// The request of these words, about this place.
pub fn request(words: &[&'static str], place: Place<'_>) -> Request {
    let word = |word: &&'static str| match *word {
        KEY => place.key.as_bytes(),
        CHANNEL => place.channel.as_bytes(),
        word => word.as_bytes(),
    };
    Request::command(&words.iter().map(word).collect::<Vec<_>>())
}

/// Whether the user lacks the right, or the server (or a proxy before it) lacks the command.
pub fn is_refusal(code: &str, message: &str) -> bool {
    code == "NOPERM" || is_unknown_command(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

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
