//! The rights that a user needs on each node.

use lockkeeper_core::kit::random;
use lockkeeper_redis_client::checks::Check;
use lockkeeper_redis_client::rights::{CHANNEL, KEY, Needed, OUTSIDE, Place, request};
use lockkeeper_redis_client::wire::{Request, Script, Trial};

use crate::layout::scripts;

/// The commands of the scripts, each with a request that tries it without a visible effect.
const INSIDE: [Needed; 20] = [
    ("hgetall", &["HGETALL", KEY]),
    ("hmget", &["HMGET", KEY, "f"]),
    ("hset", &[]),
    ("hdel", &["HDEL", KEY, "f"]),
    ("get", &["GET", KEY]),
    ("set", &["SET", KEY, "1", "XX"]),
    ("exists", &["EXISTS", KEY]),
    ("type", &["TYPE", KEY]),
    ("pttl", &["PTTL", KEY]),
    ("pexpire", &["PEXPIRE", KEY, "1"]),
    ("zadd", &["ZADD", KEY, "XX", "1", "1"]),
    ("zrem", &["ZREM", KEY, "1"]),
    ("zrange", &["ZRANGE", KEY, "0", "0"]),
    ("zrank", &["ZRANK", KEY, "1"]),
    ("time", &["TIME"]),
    ("publish", &["PUBLISH", CHANNEL, ""]),
    ("subscribe", &[]),
    ("info", &["INFO", "server"]),
    ("scan", &["SCAN", "0", "MATCH", KEY, "COUNT", "1"]),
    ("client|setname", &[]),
];

/// A channel to which no client listens.
const TRIED: &str = "lk:r:w:lockkeeper-doctor";

/// The rule of a user with all rights that locks need, and no more.
pub(crate) fn rule() -> String {
    let mut words: Vec<_> =
        OUTSIDE.iter().chain(&INSIDE).map(|(word, _)| format!("+{word}")).collect();
    words.sort();
    words.dedup();
    format!(
        "ACL SETUSER NAME reset resetchannels on >PASSWORD ~lk:r:* ~lk:born &lk:r:w:* {}",
        words.join(" ")
    )
}

/// What each connection does before the store uses it: it loads the scripts, and tries the rights
/// unless the check is waived. A server that lacks a script would get its calls later, behind
/// those that the connection has sent meanwhile: a claim behind its own withdrawal.
pub(crate) fn trials(waived: &[Check]) -> Vec<Trial> {
    let load = |script: &'static Script| Trial {
        word: "script|load",
        request: Request::command(&[b"SCRIPT", b"LOAD", script.text().as_bytes()]),
        may_be_unknown: waived.contains(&Check::Rights),
    };
    let mut trials: Vec<_> = scripts().into_iter().map(load).collect();
    if waived.contains(&Check::Rights) {
        return trials;
    }
    let key = format!("lk:r:lockkeeper-doctor:{:016x}", random::below(u64::MAX));
    let calls = OUTSIDE.iter().filter(|(word, _)| *word == "evalsha");
    let all = calls.chain(INSIDE.iter().filter(|(_, words)| !words.is_empty()));
    trials.extend(all.map(|(word, words)| Trial {
        word,
        request: request(words, Place::of(&key, TRIED)),
        may_be_unknown: false,
    }));
    trials
}
