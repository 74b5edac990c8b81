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
pub(crate) const REDISLOCK: Kind = Kind::new("bsm-redislock", "bsm/redislock", Program::Go);

/// lockkeeper on the layouts of other libraries.
pub(crate) const PLAIN: Kind = Kind::new("lockkeeper-plain", "**lockkeeper** plain", Program::Rust);
pub(crate) const SCRIPTS_PLAIN: Kind =
    Kind::new("scripts-plain", "the scripts of plain, blocking", Program::Rust);
pub(crate) const REDISSON: Kind =
    Kind::new("lockkeeper-redisson", "**lockkeeper** redisson", Program::Rust);
pub(crate) const SCRIPTS_REDISSON: Kind =
    Kind::new("scripts-redisson", "the scripts of redisson, blocking", Program::Rust);
pub(crate) const REDISSON_FENCED: Kind =
    Kind::new("lockkeeper-redisson-fenced", "**lockkeeper** redisson-fenced", Program::Rust);
pub(crate) const REDISSON_RW: Kind =
    Kind::new("lockkeeper-redisson-read", "**lockkeeper** redisson-rw, read lock", Program::Rust);

/// The clients of a Redlock.
pub(crate) const REDLOCK: Kind =
    Kind::new("lockkeeper-redlock", "**lockkeeper** redlock", Program::Rust);
pub(crate) const REDSYNC_REDLOCK: Kind = Kind::new("redsync-redlock", "redsync", Program::Go);
pub(crate) const RSLOCK_REDLOCK: Kind = Kind::new("rslock-redlock", "rslock", Program::Rust);
pub(crate) const NODE_REDLOCK: Kind = Kind::new("node-redlock", "node-redlock", Program::Node);

pub(crate) const POSTGRES: Kind = Kind::new("postgres", "PostgreSQL advisory lock", Program::Rust);

/// The clients whose SETs come from the client, and not from a script.
const SETS: [Kind; 10] = [
    RAW,
    RSLOCK,
    RSLOCK_MT,
    RSLOCK_OFTEN,
    RSLOCK_REDLOCK,
    REDSYNC,
    REDSYNC_OFTEN,
    REDSYNC_REDLOCK,
    REDIS_PY,
    REDIS_PY_OFTEN,
];

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

/// Whether the client has the servers of the Redlock.
pub(crate) fn is_redlock(kind: Kind) -> bool {
    [REDLOCK, REDSYNC_REDLOCK, RSLOCK_REDLOCK, NODE_REDLOCK].contains(&kind)
}

/// Whether a command of this name was sent by the client.
pub(crate) fn sends(kind: Kind, command: &str) -> bool {
    FROM_CLIENTS.contains(&command) || (command == "set" && SETS.contains(&kind))
}
