//! Whether this user may do all that locks need, and what that is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::super::builder::Topology;
use super::super::wire::{Link, Listener, Request, WireError, is_unknown_command};
use super::super::{RedisStore, RedisStoreBuilder, fault};
use crate::doctor::Finding;
use crate::time::Clock;
use crate::{Error, ErrorKind, LockName, Result};

/// A command, as a rule names it, and how it is tried without doing anything that anybody could see.
type Needed = (&'static str, &'static [&'static str]);

/// Stands for a key that nobody has.
const KEY: &str = "KEY";
/// As many refused commands are named.
const SHOWN: usize = 5;
/// Where nobody listens.
const CHANNEL: &str = "lk:w:lockkeeper-doctor";

/// What a client says itself.
const OUTSIDE: [Needed; 7] = [
    ("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "1", KEY]),
    ("script|load", &["SCRIPT", "LOAD", "return 1"]),
    ("info", &["INFO", "server"]),
    ("ping", &["PING"]),
    ("scan", &["SCAN", "0", "MATCH", KEY, "COUNT", "1"]),
    ("subscribe", &[]),
    ("time", &["TIME"]),
];

/// What the scripts do. While the key is a string the rest is refused, but only after the rights were looked at.
const INSIDE: [Needed; 17] = [
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

const IN_A_CLUSTER: [Needed; 3] =
    [("asking", &["ASKING"]), ("cluster|slots", &["CLUSTER", "SLOTS"]), ("unsubscribe", &[])];

/// Where messages go to the shards of a cluster: Redis 7 and later.
const IN_SHARDS: [Needed; 3] = [("spublish", &["SPUBLISH", CHANNEL, ""]), ("ssubscribe", &[]), ("sunsubscribe", &[])];

/// What a user has to be given, and nothing else. `shards`: messages go to the shards of a cluster.
pub(super) fn rule(builder: &RedisStoreBuilder, shards: bool) -> String {
    let words: Vec<_> = needed(builder, shards).iter().map(|(word, _)| format!("+{word}")).collect();
    format!("ACL SETUSER NAME reset resetchannels on >PASSWORD ~lk:* &lk:* {}", words.join(" "))
}

/// What a user of the Sentinels has to be given, where they have users.
pub(super) const SENTINEL_RULE: &str = "ACL SETUSER NAME reset resetchannels on >PASSWORD \
    &+switch-master &+promoted-slave +info +ping +subscribe +sentinel|get-master-addr-by-name +sentinel|master";

fn needed(builder: &RedisStoreBuilder, shards: bool) -> Vec<Needed> {
    let mut needed: Vec<Needed> = OUTSIDE.into_iter().chain(INSIDE).collect();
    if builder.db != 0 {
        needed.push(("select", &[]));
    }
    if builder.min_replicas != 0 {
        needed.push(("wait", &["WAIT", "0", "1"]));
    }
    if builder.topology == Topology::Cluster {
        needed.extend(IN_A_CLUSTER);
    }
    if shards {
        needed.extend(IN_SHARDS);
    }
    needed
}

/// Tries everything on each of the servers.
pub(super) async fn examine(
    store: &RedisStore,
    builder: &RedisStoreBuilder,
    prefix: &str,
    within: Duration,
) -> Finding {
    let shards = store.0.servers.shards();
    let needed = needed(builder, shards);
    for link in store.0.servers.masters() {
        match refused(&needed, prefix, &link, within).await {
            Ok(None) => {}
            Ok(Some(refused)) => return Finding::fail("rights", refused, rule(builder, shards)),
            Err(error) => return Finding::failed("rights", &error),
        }
    }
    let finding = Finding::ok("rights", "this user may do all that locks need; by rule:");
    // Behind the rest of the line, as in a failure: it is long.
    Finding { remedy: Some(rule(builder, shards)), ..finding }
}

/// What the server refuses, and how.
async fn refused(needed: &[Needed], prefix: &str, link: &Link, within: Duration) -> Result<Option<String>> {
    let key = format!("lk:{{{}}}:rights", LockName::new(&format!("{prefix}lockkeeper-doctor"))?.encoded());
    let tried: Vec<_> = needed.iter().filter(|(_, words)| !words.is_empty()).collect();
    let asked: Vec<_> = tried.iter().map(|(_, words)| link.send(request(words, &key))).collect();
    let (mut refused, mut how) = (Vec::new(), None);
    for ((word, _), answer) in tried.into_iter().zip(asked) {
        match answer.await {
            Err(WireError::Server { code, message }) if is_refusal(&code, &message) => {
                refused.push(word.replace('|', " ").to_uppercase());
                how.get_or_insert(format!("{code} {message}"));
            }
            // Whatever else a server has against it, it came after the rights.
            Ok(_) | Err(WireError::Server { .. }) => {}
            Err(broken) => return Err(fault::of(broken)),
        }
    }
    if !may_listen(link, within).await? {
        refused.push("SUBSCRIBE".to_owned());
        how.get_or_insert(format!("no to SUBSCRIBE {CHANNEL}"));
    }
    let more = refused.split_off(refused.len().min(SHOWN)).len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Ok(how.map(|how| format!("{} refuses {}{more}: {how}", link.endpoint(), refused.join(", "))))
}

fn request(words: &[&'static str], key: &str) -> Request {
    let word = |word: &&'static str| if *word == KEY { key.as_bytes() } else { word.as_bytes() };
    Request::command(&words.iter().map(word).collect::<Vec<_>>())
}

/// No right to it, or a server or something before it that has no such command.
fn is_refusal(code: &str, message: &str) -> bool {
    code == "NOPERM" || is_unknown_command(code, message)
}

/// Whether messages can be heard; they are what wakes those who wait.
async fn may_listen(link: &Link, within: Duration) -> Result<bool> {
    let (told, mut hears) = watch::channel(None);
    let ear = link.beside(Arc::new(Ear(told)));
    ear.subscribe(CHANNEL.as_bytes().to_vec(), false);
    match Clock::boot().timeout(within, hears.wait_for(Option::is_some)).await {
        Some(Ok(told)) => Ok(*told == Some(true)),
        _ => Err(Error::new(ErrorKind::Unavailable, format!("{} says nothing to SUBSCRIBE", link.endpoint()))
            .with_remedy("a look at what stands between it and here: connections for messages stay open")),
    }
}

/// Hears whether a subscription stands.
#[derive(Debug)]
struct Ear(watch::Sender<Option<bool>>);

impl Listener for Ear {
    fn pushed(&self, _channel: &[u8], _payload: &[u8]) {}

    fn subscribed(&self, _channel: &[u8]) {
        self.0.send_replace(Some(true));
    }

    fn unsubscribed(&self, _channel: &[u8]) {
        self.0.send_replace(Some(false));
    }

    fn disconnected(&self) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::backend::redis::layout::SCRIPTS;

    #[test]
    fn the_rule_has_what_the_scripts_call_and_nothing_else() {
        let lines = SCRIPTS.iter().flat_map(|script| script.text().lines());
        let text: String = lines.filter(|line| !line.trim_start().starts_with("--")).collect();
        // A command stands in capitals between quotes, as the first argument of `call`, or of what chooses one.
        let called: BTreeSet<_> = text
            .split('\'')
            .skip(1)
            .step_by(2)
            .filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()))
            .filter(|word| !["KEEPTTL", "SPUBLISH"].contains(word))
            .map(str::to_lowercase)
            .collect();
        let inside: BTreeSet<_> =
            INSIDE.iter().map(|(word, _)| (*word).to_owned()).chain(["time".to_owned()]).collect();
        assert_eq!(called, inside);
    }

    #[test]
    fn a_server_that_refuses_is_told_from_one_that_cannot() {
        assert!(is_refusal("NOPERM", "this user has no permissions to run the 'get' command"));
        assert!(is_refusal("ERR", "unknown command 'SCAN', with args beginning with: "));
        assert!(!is_refusal("WRONGTYPE", "Operation against a key holding the wrong kind of value"));
        assert!(!is_refusal("MOVED", "1 10.0.0.1:6379"));
    }
}
