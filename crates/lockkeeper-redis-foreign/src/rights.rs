//! The rights that a user needs for the scripts of these layouts.

use lockkeeper_redis_client::rights::{CHANNEL, KEY, Needed};

use crate::Result;
use crate::layout::{Keys, Layout, escaped};
use crate::store::ClaimId;

/// The commands of the scripts. `SET` makes the key a string, so the server refuses most of the
/// others, but only after it has checked the rights.
pub(super) const INSIDE: [Needed; 33] = [
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
    ("lindex", &["LINDEX", KEY, "0"]),
    ("linsert", &["LINSERT", KEY, "AFTER", "", ""]),
    ("llen", &["LLEN", KEY]),
    ("lpos", &["LPOS", KEY, ""]),
    ("lpush", &["LPUSH", KEY, ""]),
    ("lrange", &["LRANGE", KEY, "0", "0"]),
    ("lrem", &["LREM", KEY, "1", ""]),
    ("rpush", &["RPUSH", KEY, ""]),
    ("zadd", &["ZADD", KEY, "XX", "1", "m"]),
    ("zcard", &["ZCARD", KEY]),
    ("zrange", &["ZRANGE", KEY, "0", "0"]),
    ("zrangebyscore", &["ZRANGEBYSCORE", KEY, "0", "0"]),
    ("zrem", &["ZREM", KEY, "m"]),
    ("zscore", &["ZSCORE", KEY, "m"]),
    ("del", &["DEL", KEY]),
    ("publish", &["PUBLISH", CHANNEL, ""]),
];

/// A key that no client has. The keys of detached sessions begin so too, which every user needs.
pub(super) const TRIED: &str = "lkf:s:{lockkeeper-rights}";

/// A channel of the layout to which no client listens.
pub(super) fn channel(layout: Layout) -> Result<String> {
    let keys = Keys::of(layout, &"lockkeeper-rights".parse()?);
    Ok(String::from_utf8_lossy(&keys.channel()).into_owned())
}

/// The keys and the channels of an access rule: those of the locks whose names begin with `prefix`,
/// and the keys that all locks share. A rule cannot have a blank, so with such a prefix it allows
/// all keys.
pub(super) fn places(layout: Layout, prefix: &str) -> Result<String> {
    let prefix = if prefix.contains(char::is_whitespace) { "" } else { prefix };
    let (mut keys, mut channels) = (vec!["lkf:s:{".to_owned(), "lkf:id".to_owned()], Vec::new());
    // A brace in a name changes its keys.
    for name in [format!("{prefix}NAME"), format!("{prefix}{{NAME}}")] {
        let of = Keys::of(layout, &name.parse()?);
        for key in of.of_claim(&ClaimId::from_bytes([0; 16])) {
            keys.push(before(&key, &name) + &String::from_utf8_lossy(&escaped(prefix)));
        }
        channels.extend([of.channel(), of.grants()].map(|channel| before(&channel, &name)));
    }
    let pattern = |mark: char| move |begin: &String| format!("{mark}{begin}*");
    let (keys, channels) = (shortest(keys), shortest(channels));
    let all = keys.iter().map(pattern('~')).chain(channels.iter().map(pattern('&')));
    Ok(all.collect::<Vec<_>>().join(" "))
}

/// What a key has before the name of its lock.
fn before(key: &[u8], name: &str) -> String {
    let key = String::from_utf8_lossy(key);
    key.split_once(name).map_or("", |(before, _)| before).to_owned()
}

/// The beginnings, without those that begin with another one.
fn shortest(mut begins: Vec<String>) -> Vec<String> {
    begins.sort();
    begins.dedup_by(|longer, shorter| longer.starts_with(&**shorter));
    begins
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::layout::commands;

    #[test]
    fn the_keys_of_a_rule_are_those_of_the_prefix() {
        let of = |layout, prefix| places(layout, prefix).unwrap();
        assert_eq!(of(Layout::Plain, ""), "~* &lkf::* &lkf:{*");
        assert_eq!(
            of(Layout::Plain, "shop:"),
            "~lkf::shop:* ~lkf:id* ~lkf:s:{* ~lkf:{shop:* ~shop:* &lkf::* &lkf:{*"
        );
        assert_eq!(
            of(Layout::RedissonFenced, "shop:"),
            "~lkf::shop:* ~lkf:id* ~lkf:s:{* ~lkf:{shop:* ~redisson_lock_token:shop:* \
             ~redisson_lock_token:{shop:* ~shop:* &lkf::* &lkf:{* &redisson_lock__channel:*"
        );
        let rw = of(Layout::RedissonRw, "[a]");
        assert!(rw.contains(r"~\[a\]* ") && rw.contains(r"~{\[a\]* "), "{rw}");
        assert_eq!(of(Layout::RedissonSemaphore, "a b/"), "~* &lkf::* &lkf:{* &redisson_sc:*");
    }

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
