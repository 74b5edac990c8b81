//! Foreign keys beside the keys of a lock on the servers of a Redlock, and foreign messages.

use anyhow::Result;
use lockkeeper::LockName;
use redis::{Cmd, ConnectionLike};

use crate::redlock::Redlock;

impl Redlock {
    /// Puts data of others around the lock of this name on each server. Round 0 puts the permanent
    /// data, and a later round what changes.
    ///
    /// # Errors
    /// If a server refuses a command.
    pub fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        let commands = if round == 0 { permanent(name) } else { changing(name, round) };
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        for node in self.nodes() {
            for answer in node.connect()?.req_packed_commands(&packed, 0, commands.len())? {
                answer.extract_error()?;
            }
        }
        Ok(())
    }
}

fn command(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

/// Keys of every type that look like those of the lock, and locks of other layouts and libraries.
fn permanent(name: &LockName) -> Vec<Cmd> {
    let (plain, name) = (name.as_str(), name.encoded());
    let key = |before: &str, behind: &str| format!("{before}{name}{behind}").into_bytes();
    let mut all = vec![
        command(&[b"SET", plain.as_bytes(), b"7"]),
        command(&[b"SET", &key("lock:{", "}"), b"\xff\xfe\0"]),
        command(&[b"SET", &key("lk:r:", ""), b"7"]),
        command(&[b"SET", &key("lk:r:{", ""), b"7"]),
        command(&[b"SET", &key("lk:r:{", "}}"), b"7"]),
        command(&[b"SET", &key("xlk:r:{", "}"), b"7"]),
        command(&[b"SET", &key("LK:R:{", "}"), b"7"]),
        command(&[b"SET", &key("lk:r:w:{", "}"), b"7"]),
        command(&[b"SADD", &key("lk:r:{", "}:W"), b"7"]),
        command(&[b"ZADD", &key("lk:r:{", "}:ww"), b"-1", b"7"]),
        command(&[b"RPUSH", &key("lk:r:{", "}:g"), b"7"]),
        command(&[b"SET", &key("lk:r:{", "}:g:"), b"7"]),
        // Lines of other names, of other layouts, and of no name at all.
        command(&[b"HSET", &key("lk:r:{x-", "}"), b"f", b"later"]),
        command(&[b"RPUSH", &key("lk:r:{z-", "}"), b"7"]),
        command(&[b"SET", &key("lk:r:{", "%ff}"), b"7"]),
        command(&[b"HSET", &key("lk:r:{", "%}"), b"7", b"7"]),
        command(&[b"SET", &key("lk:r:{h.", "}"), b"7"]),
        // The native store on the same server.
        command(&[b"SET", &key("lk:{", "}"), &17_f64.to_le_bytes()]),
    ];
    let last = plain.char_indices().last().map_or(0, |(at, _)| at);
    for near in [format!("{plain}~"), format!("{plain}/~"), format!("{}~", &plain[..last])] {
        let near = near.parse::<LockName>().map_or_else(|_| "~".to_owned(), |near| near.encoded());
        all.push(command(&[b"HSET", format!("lk:r:{{{near}}}").as_bytes(), b"f", b"9e15"]));
        all.push(command(&[b"ZADD", format!("lk:r:{{{near}}}:w").as_bytes(), b"1", &[7; 16]]));
    }
    all
}

/// The data that change with each round, and messages to the clients.
fn changing(name: &LockName, round: usize) -> Vec<Cmd> {
    let (plain, name, round) = (name.as_str(), name.encoded(), round.to_string());
    let key = format!("lk:r:{{{name}}}:round");
    let mut all = vec![
        command(&[b"SET", key.as_bytes(), round.as_bytes(), b"PX", b"60000"]),
        command(&[b"SET", plain.as_bytes(), round.as_bytes()]),
    ];
    let channel = format!("lk:r:w:{name}");
    for message in [&b""[..], b"00000001", b"zzzzzzzz", b"\xff\xfe", round.as_bytes()] {
        all.push(command(&[b"PUBLISH", channel.as_bytes(), message]));
    }
    all
}
