//! Foreign keys beside the keys of a lock on Redis, and foreign messages to subscribers.

use ::redis::{Cmd, ConnectionLike, Value};
use lockkeeper::LockName;
use lockkeeper_live::Redis;

/// Comes to a server, or to the nodes among which the keys of a cluster are shared out.
pub(crate) fn comes(nodes: &[&Redis], name: &LockName, round: usize) {
    let commands = if round == 0 {
        settlers(name, nodes.len() > 1)
    } else {
        passers_by(name, round, nodes.len() > 1)
    };
    let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
    let mut done = vec![false; commands.len()];
    for node in nodes {
        let answers =
            node.connect().unwrap().req_packed_commands(&packed, 0, commands.len()).unwrap();
        assert_eq!(answers.len(), commands.len());
        for (done, answer) in done.iter_mut().zip(&answers) {
            match answer {
                Value::ServerError(error) => assert_eq!(error.code(), "MOVED", "{error:?}"),
                _ => *done = true,
            }
        }
    }
    assert!(done.iter().all(|done| *done), "a key is in nobody's slot");
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
fn settlers(name: &LockName, sharded: bool) -> Vec<Cmd> {
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
    all.extend(passers_by_of(plain, name, 0, sharded));
    all
}

fn passers_by(name: &LockName, round: usize, sharded: bool) -> Vec<Cmd> {
    passers_by_of(name.as_str(), &name.encoded(), round, sharded)
}

/// The data that change with each round, and the messages to subscribers.
fn passers_by_of(plain: &str, name: &str, round: usize, sharded: bool) -> Vec<Cmd> {
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
