//! The kinds of contenders in Redis.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use lockkeeper_live::{Redis, interop_binary, redis};

use super::us::{Mode, Us};
use crate::contender::Tries;
use crate::lines::Lines;

/// The program of a foreign client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Go,
    Java,
    Node,
    Python,
    Rust,
}

impl Program {
    /// Starts the program as the client of this name.
    pub(crate) fn start(self, kind: &str, addresses: &[SocketAddr], ttl: Duration) -> Lines {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let (addresses, ttl) = (addresses.join(","), ttl.as_millis().to_string());
        let arguments = [kind, &*addresses, &*ttl];
        match self {
            Self::Go => Lines::program("bin/redis-locks", &arguments),
            Self::Java => Lines::java("java/redisson/client.jar", &arguments),
            Self::Node => Lines::script(&mut Command::new("node"), "node/client.mjs", &arguments),
            Self::Python => {
                let python = interop_binary("python/bin/python").unwrap();
                Lines::script(&mut Command::new(python), "python/client.py", &arguments)
            }
            Self::Rust => Lines::program("bin/rslock-lock", &arguments),
        }
    }
}

/// A kind of contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A foreign client, by its program and its name there.
    Foreign(Program, &'static str),
    /// lockkeeper, in this layout.
    Us(&'static str, Mode),
}

pub(crate) const REDIS_PY: Kind = Kind::Foreign(Program::Python, "redis-py");
pub(crate) const REDISLOCK: Kind = Kind::Foreign(Program::Go, "redislock");
pub(crate) const REDSYNC: Kind = Kind::Foreign(Program::Go, "redsync");
pub(crate) const NODE_REDLOCK: Kind = Kind::Foreign(Program::Node, "node-redlock");
pub(crate) const RSLOCK: Kind = Kind::Foreign(Program::Rust, "rslock");
pub(crate) const REDISSON: Kind = Kind::Foreign(Program::Java, "redisson");
pub(crate) const REDISSON_FAIR: Kind = Kind::Foreign(Program::Java, "redisson-fair");
/// Its waiters keep their places for one ttl, and not for five minutes.
pub(crate) const REDISSON_FAIR_SHORT: Kind = Kind::Foreign(Program::Java, "redisson-fair-short");
pub(crate) const REDISSON_FENCED: Kind = Kind::Foreign(Program::Java, "redisson-fenced");
pub(crate) const REDISSON_READ: Kind = Kind::Foreign(Program::Java, "redisson-read");
pub(crate) const REDISSON_WRITE: Kind = Kind::Foreign(Program::Java, "redisson-write");
pub(crate) const REDISSON_SEMAPHORE: Kind = Kind::Foreign(Program::Java, "redisson-semaphore-1");
pub(crate) const REDISSON_TWO_PERMITS: Kind = Kind::Foreign(Program::Java, "redisson-semaphore-2");

pub(crate) const REDISSON_REDLOCK: Kind = Kind::Foreign(Program::Java, "redisson-redlock");

pub(crate) const US_PLAIN: Kind = Kind::Us("plain", Mode::Exclusive);
pub(crate) const US_REDISSON: Kind = Kind::Us("redisson", Mode::Exclusive);
pub(crate) const US_FAIR: Kind = Kind::Us("redisson-fair", Mode::Exclusive);
pub(crate) const US_FENCED: Kind = Kind::Us("redisson-fenced", Mode::Exclusive);
pub(crate) const US_READ: Kind = Kind::Us("redisson-rw", Mode::Read);
pub(crate) const US_WRITE: Kind = Kind::Us("redisson-rw", Mode::Write);
pub(crate) const US_SEMAPHORE: Kind = Kind::Us("redisson-semaphore", Mode::Permit(1));
pub(crate) const US_TWO_PERMITS: Kind = Kind::Us("redisson-semaphore", Mode::Permit(2));
pub(crate) const US_REDLOCK: Kind = Kind::Us("redlock", Mode::Exclusive);

impl Kind {
    /// Starts a contender, which is a session of its own. The first server has the counters.
    pub(crate) fn start(self, addresses: &[SocketAddr], ttl: Duration) -> Box<dyn Tries> {
        match self {
            Self::Us(layout, mode) => Box::new(Us::new(addresses, layout, mode, ttl)),
            Self::Foreign(program, kind) => Box::new(program.start(kind, addresses, ttl)),
        }
    }

    /// Whether the contender renews what it holds by itself.
    pub(crate) fn renews_by_itself(self) -> bool {
        match self {
            Self::Us(..) => true,
            Self::Foreign(program, kind) => {
                program == Program::Java && !kind.starts_with("redisson-semaphore")
            }
        }
    }
}

/// The servers of a lock: one, or three that know nothing of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Servers(&'static [&'static Redis]);

impl Servers {
    pub(crate) fn one() -> Self {
        static ONE: OnceLock<[&Redis; 1]> = OnceLock::new();
        Self(ONE.get_or_init(|| [redis().unwrap()]))
    }

    pub(crate) fn three() -> Self {
        static STARTED: OnceLock<[Redis; 3]> = OnceLock::new();
        static THREE: OnceLock<[&Redis; 3]> = OnceLock::new();
        let started = STARTED.get_or_init(|| [(); 3].map(|()| Redis::start().unwrap()));
        Self(THREE.get_or_init(|| started.each_ref()))
    }

    pub(crate) fn all(self) -> &'static [&'static Redis] {
        self.0
    }

    /// The one that has the counters.
    pub(crate) fn first(self) -> &'static Redis {
        self.0[0]
    }
}
