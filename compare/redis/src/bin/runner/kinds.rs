//! Who is compared.

/// A client: its name, the program that it is in, and what has to be known to count its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    /// As the program calls it.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) program: Program,
    /// Its SETs come from the client, and not from a script.
    pub(crate) sets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    Rust,
    Go,
    /// All clients are objects of one process.
    Java,
    Python,
}

const fn kind(name: &'static str, label: &'static str, program: Program, sets: bool) -> Kind {
    Kind { name, label, program, sets }
}

pub(crate) const RAW: Kind = kind("raw", "raw `SET NX PX` + compare-and-delete", Program::Rust, true);
pub(crate) const SCRIPTS: Kind = kind("scripts", "lockkeeper's scripts, blocking", Program::Rust, false);
pub(crate) const LOCKKEEPER: Kind = kind("lockkeeper", "**lockkeeper**", Program::Rust, false);
pub(crate) const LOCKKEEPER_MT: Kind = kind("lockkeeper-mt", "**lockkeeper**, two threads", Program::Rust, false);
pub(crate) const LOCKKEEPER_READ: Kind = kind("lockkeeper-read", "**lockkeeper** read lock", Program::Rust, false);
pub(crate) const RSLOCK: Kind = kind("rslock", "rslock", Program::Rust, true);
pub(crate) const RSLOCK_MT: Kind = kind("rslock-mt", "rslock, two threads", Program::Rust, true);
pub(crate) const RSLOCK_OFTEN: Kind = kind("rslock-1ms", "rslock, asking each 1 ms", Program::Rust, true);
pub(crate) const REDSYNC: Kind = kind("redsync", "redsync", Program::Go, true);
pub(crate) const REDSYNC_OFTEN: Kind = kind("redsync-1ms", "redsync, asking each 1 ms", Program::Go, true);
pub(crate) const RUEIDISLOCK: Kind = kind("rueidislock", "rueidislock", Program::Go, false);
pub(crate) const RLOCK: Kind = kind("redisson-rlock", "Redisson RLock", Program::Java, false);
pub(crate) const FAIR: Kind = kind("redisson-fair", "Redisson fair lock", Program::Java, false);
pub(crate) const FENCED: Kind = kind("redisson-fenced", "Redisson RFencedLock", Program::Java, false);
pub(crate) const REDISSON_READ: Kind = kind("redisson-read", "Redisson read lock", Program::Java, false);
pub(crate) const REDIS_PY: Kind = kind("redis-py", "redis-py", Program::Python, true);
pub(crate) const REDIS_PY_OFTEN: Kind = kind("redis-py-1ms", "redis-py, asking each 1 ms", Program::Python, true);
pub(crate) const POSTGRES: Kind = kind("postgres", "PostgreSQL advisory lock", Program::Rust, false);

/// Commands that come from clients only; what scripts call is counted by the server beside them.
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

impl Kind {
    pub(crate) fn is_jvm(self) -> bool {
        self.program == Program::Java
    }

    /// Whether it asks PostgreSQL instead.
    pub(crate) fn is_postgres(self) -> bool {
        self == POSTGRES
    }

    /// Whether it is lockkeeper, for which a release need not be awaited.
    pub(crate) fn is_lockkeeper(self) -> bool {
        self.name.starts_with("lockkeeper")
    }

    /// Whether a command of this name was sent by the client.
    pub(crate) fn sends(self, command: &str) -> bool {
        FROM_CLIENTS.contains(&command) || (self.sets && command == "set")
    }
}
