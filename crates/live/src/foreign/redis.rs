//! Foreign keys beside the keys of a lock on Redis, and foreign messages to subscribers.

use anyhow::{Result, ensure};
use lockkeeper::LockName;
use redis::{Cmd, ConnectionLike, Value};

use crate::redis::{Cluster, Redis};

/// The first nodes of a cluster.
const MASTERS: usize = 3;

impl Redis {
    /// Puts data of others around the lock of this name, and sends messages of others to its
    /// subscribers. Round 0 puts the permanent data, and a later round what changes.
    ///
    /// # Errors
    /// If the server refuses a command.
    pub fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        put(&[self], false, name, round)
    }

    /// The same around a lock in the layout of another library, where the name of the lock is its
    /// key.
    ///
    /// # Errors
    /// If the server refuses a command.
    pub fn put_foreign_data_beside_others(&self, name: &LockName, round: usize) -> Result<()> {
        put_all(&[self], &beside_others(name.as_str(), round))
    }
}

impl Cluster {
    /// As [`Redis::put_foreign_data`], each key at its node. No node has failed over.
    ///
    /// # Errors
    /// If no node has the slot of a key.
    pub fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        let masters: Vec<_> = self.nodes()[..MASTERS].iter().collect();
        put(&masters, true, name, round)
    }
}

fn put(nodes: &[&Redis], sharded: bool, name: &LockName, round: usize) -> Result<()> {
    let commands = match round {
        0 => permanent(name, sharded),
        _ => changing(name, round, sharded),
    };
    put_all(nodes, &commands)
}

fn put_all(nodes: &[&Redis], commands: &[Cmd]) -> Result<()> {
    let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
    let mut done = vec![false; commands.len()];
    for node in nodes {
        let answers = node.connect()?.req_packed_commands(&packed, 0, commands.len())?;
        ensure!(answers.len() == commands.len(), "{} answers", answers.len());
        for (done, answer) in done.iter_mut().zip(&answers) {
            match answer {
                Value::ServerError(error) => ensure!(error.code() == "MOVED", "{error:?}"),
                _ => *done = true,
            }
        }
    }
    ensure!(done.iter().all(|done| *done), "no node has the slot of a key");
    Ok(())
}

fn command(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

fn key(parts: [&str; 3]) -> Vec<u8> {
    parts.concat().into_bytes()
}

/// The permanent data: keys of every type, in the lock's slot and outside of it.
fn permanent(name: &LockName, sharded: bool) -> Vec<Cmd> {
    let (plain, name) = (name.as_str(), &name.encoded());
    let mut all = vec![
        // An application, and other libraries of locks, use the lock's name as a key.
        command(&[b"SET", plain.as_bytes(), b"7"]),
        command(&[b"HSET", &key(["{", name, "}"]), b"f9a1:1", b"1"]),
        command(&[b"SET", &key(["lock:{", name, "}"]), b"\xff\xfe\0"]),
        // Keys similar to the keys of the lock.
        command(&[b"SET", &key(["lk:", name, ""]), b"7"]),
        command(&[b"SET", &key(["lk:{", name, ""]), b"7"]),
        command(&[b"SET", &key(["lk:{", name, "}}"]), b"7"]),
        command(&[b"SET", &key(["xlk:{", name, "}"]), b"7"]),
        command(&[b"SET", &key(["LK:{", name, "}"]), b"7"]),
        command(&[b"SET", &key(["lk:w:{", name, "}"]), b"7"]),
        command(&[b"RPUSH", &key(["lk:{", name, "}:"]), b"7"]),
        command(&[b"RPUSH", &key(["lk:{", name, "}:log"]), b"7"]),
        command(&[b"SADD", &key(["lk:{", name, "}:Q"]), b"7"]),
        command(&[b"HSET", &key(["lk:{", name, "}:ww"]), b"7", b"7"]),
        command(&[b"ZADD", &key(["lk:{", name, "}:q:"]), b"-1", b"7"]),
        command(&[b"XADD", &key(["lk:{", name, "}:g:old"]), b"*", b"7", b"7"]),
        // Lines of other names, of other layouts, and of no name at all.
        command(&[b"SET", &key(["lk:{x-", name, "}"]), &17_f64.to_le_bytes()]),
        command(&[b"SET", &key(["lk:{y-", name, "}"]), b"\xfffrom a later version"]),
        command(&[b"RPUSH", &key(["lk:{z-", name, "}"]), b"7"]),
        command(&[b"SET", &key(["lk:{", name, "%ff}"]), b"7"]),
        command(&[b"SET", &key(["lk:{", name, "%}"]), b"7"]),
        command(&[b"SET", &key(["lk:{", name, "%00}"]), b"7"]),
        command(&[b"RPUSH", &key(["lk:{", name, "%7a}"]), b"7"]),
        command(&[b"SET", &key(["lk:{h.", name, "}"]), b"7"]),
    ];
    // Names that begin with this name, or with which this name begins.
    let last = plain.char_indices().last().map_or(0, |(at, _)| at);
    for near in [format!("{plain}~"), format!("{plain}/~"), format!("{}~", &plain[..last])] {
        let near = near.parse::<LockName>().map_or_else(|_| "~".to_owned(), |near| near.encoded());
        all.push(command(&[b"SET", &key(["lk:{", &near, "}"]), &17_f64.to_le_bytes()]));
        all.push(command(&[b"HSET", &key(["lk:{", &near, "}:w"]), &[7; 16], b"7"]));
        all.push(command(&[b"ZADD", &key(["lk:{", &near, "}:q"]), b"1", &[7; 16]]));
        all.push(command(&[b"ZADD", &key(["lk:{", &near, "}:g"]), b"9e15", &[7; 16]]));
    }
    all.extend(changing_of(plain, name, 0, sharded));
    all
}

fn changing(name: &LockName, round: usize, sharded: bool) -> Vec<Cmd> {
    changing_of(name.as_str(), &name.encoded(), round, sharded)
}

/// The data that change with each round, and the messages to subscribers.
fn changing_of(plain: &str, name: &str, round: usize, sharded: bool) -> Vec<Cmd> {
    let round = round.to_string();
    let mut all = vec![
        command(&[b"SET", &key(["lk:{", name, "}:round"]), round.as_bytes(), b"PX", b"60000"]),
        command(&[b"SET", plain.as_bytes(), round.as_bytes()]),
        command(&[b"HINCRBY", &key(["lk:{", name, "}:ww"]), b"round", b"1"]),
    ];
    let publish: &[u8] = if sharded { b"SPUBLISH" } else { b"PUBLISH" };
    let channel = key(["lk:w:{", name, "}"]);
    for message in
        [&b""[..], b"g", b"g7777777777777777", b"l", b"\xff\xfe", b"c", b"c~", round.as_bytes()]
    {
        all.push(command(&[publish, &channel, message]));
    }
    all
}

/// Keys similar to those of the layouts of other libraries, their locks of other names, and
/// messages of others on their channels.
fn beside_others(name: &str, round: usize) -> Vec<Cmd> {
    let round = round.to_string();
    let last = name.char_indices().last().map_or(0, |(at, _)| at);
    let mut all = vec![
        command(&[b"SET", &key(["lk:{", name, "}"]), round.as_bytes()]),
        command(&[b"SET", &key(["lock:", name, ""]), round.as_bytes()]),
        command(&[b"HINCRBY", &key([name, "~many", ""]), b"mode", b"1"]),
        command(&[b"HINCRBY", &key([name, "~many", ""]), round.as_bytes(), b"1"]),
        command(&[b"SET", &key(["redisson_lock_tokens:{", name, "}"]), b"none"]),
        command(&[b"SET", &key(["{", name, "}:timeouts"]), b"none"]),
        command(&[b"RPUSH", &key(["redisson_lock_queue:{", name, "~}"]), b"none"]),
    ];
    for near in [format!("{name}~"), format!("{name}/~"), format!("{}~", &name[..last])] {
        all.push(command(&[b"SET", near.as_bytes(), round.as_bytes()]));
        all.push(command(&[
            b"HSET",
            &key(["lkf:{", &near, "~}"]),
            b"t",
            b"none",
            b"f9a1:1",
            b"\xff",
        ]));
        all.push(command(&[b"SET", &key(["lkf:{", &near, "}:gone:00"]), b"1"]));
    }
    let channels = ["redisson_lock__channel:{", "redisson_rwlock:{", "redisson_sc:{"];
    let channels = channels.map(|channel| key([channel, name, "}"]));
    for channel in channels.iter().chain([&key(["lkf:{", name, "}:channel"])]) {
        for message in [&b""[..], b"0", b"1", b"-1", b"\xff\xfe", round.as_bytes()] {
            all.push(command(&[b"PUBLISH", channel, message]));
        }
    }
    all
}
