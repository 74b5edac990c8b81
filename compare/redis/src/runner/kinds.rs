//! The compared clients.

use compare_common::runner::{Kind, Program};

pub(crate) const RAW: Kind =
    Kind::new("raw", "raw `SET NX PX` + compare-and-delete", Program::Rust);
pub(crate) const SCRIPTS: Kind =
    Kind::new("scripts", "lockkeeper's scripts, blocking", Program::Rust);
pub(crate) const LOCKKEEPER: Kind = Kind::new("lockkeeper", "**lockkeeper**", Program::Rust);
pub(crate) const LOCKKEEPER_MT: Kind =
    Kind::new("lockkeeper-mt", "**lockkeeper**, two threads", Program::Rust);
pub(crate) const LOCKKEEPER_READ: Kind =
    Kind::new("lockkeeper-read", "**lockkeeper** read lock", Program::Rust);
pub(crate) const RSLOCK: Kind = Kind::new("rslock", "rslock", Program::Rust);
pub(crate) const RSLOCK_MT: Kind = Kind::new("rslock-mt", "rslock, two threads", Program::Rust);
pub(crate) const RSLOCK_OFTEN: Kind =
    Kind::new("rslock-1ms", "rslock, asking each 1 ms", Program::Rust);
pub(crate) const REDSYNC: Kind = Kind::new("redsync", "redsync", Program::Go);
pub(crate) const REDSYNC_OFTEN: Kind =
    Kind::new("redsync-1ms", "redsync, asking each 1 ms", Program::Go);
pub(crate) const RUEIDISLOCK: Kind = Kind::new("rueidislock", "rueidislock", Program::Go);
pub(crate) const RLOCK: Kind = Kind::new("redisson-rlock", "Redisson RLock", Program::Java);
pub(crate) const FAIR: Kind = Kind::new("redisson-fair", "Redisson fair lock", Program::Java);
pub(crate) const FENCED: Kind = Kind::new("redisson-fenced", "Redisson RFencedLock", Program::Java);
pub(crate) const REDISSON_READ: Kind =
    Kind::new("redisson-read", "Redisson read lock", Program::Java);
pub(crate) const REDIS_PY: Kind = Kind::new("redis-py", "redis-py", Program::Python);
pub(crate) const REDIS_PY_OFTEN: Kind =
    Kind::new("redis-py-1ms", "redis-py, asking each 1 ms", Program::Python);
pub(crate) const POSTGRES: Kind = Kind::new("postgres", "PostgreSQL advisory lock", Program::Rust);

/// The clients whose SETs come from the client, and not from a script.
const SETS: [Kind; 8] =
    [RAW, RSLOCK, RSLOCK_MT, RSLOCK_OFTEN, REDSYNC, REDSYNC_OFTEN, REDIS_PY, REDIS_PY_OFTEN];

/// Commands that only clients send. The server counts the commands of scripts separately.
const FROM_CLIENTS: [&str; 16] = [
    "evalsha",
    "eval",
    "evalsha_ro",
    "eval_ro",
    "fcall",
    "fcall_ro",
    "subscribe",
    "unsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "ping",
    "hello",
    "select",
    "script|load",
    "client|tracking",
    "wait",
];

/// Whether a command of this name was sent by the client.
pub(crate) fn sends(kind: Kind, command: &str) -> bool {
    FROM_CLIENTS.contains(&command) || (command == "set" && SETS.contains(&kind))
}
