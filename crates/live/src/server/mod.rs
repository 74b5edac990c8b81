//! What a test of faults does to a store, whichever store it is.

mod etcd;
mod foreign;
mod redis;
mod redlock;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use lockkeeper::optimistic::Register;
use lockkeeper::{Keeper, LockName};
use lockkeeper_testing::Crash;
use lockkeeper_testing::history::Kind;

pub use self::etcd::EtcdServer;
pub use self::foreign::{ForeignLayout, ForeignServer};
pub use self::redis::RedisServer;
pub use self::redlock::RedlockServer;
use crate::proxy::{Proxy, Way};

/// The URL with one more parameter, `NAME=VALUE`.
pub fn with(url: &str, parameter: &str) -> String {
    let before = if url.contains('?') { '&' } else { '?' };
    format!("{url}{before}{parameter}")
}

/// What a case of the fault suite needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The store implements [`Server`].
    Server,
    /// [`Server::shift_clock`] moves the clock by which the store ends leases.
    Clock,
    /// The store keeps a queue: waiters get the lock in their order.
    Queue,
    /// Locks may outlive the client that acquired them.
    Detached,
    /// The store has [registers](LiveStore::register).
    Registers,
}

/// How the histories of killed processes are played on a store.
#[derive(Clone, Copy, Debug)]
pub struct KilledProcesses {
    /// The number of processes at a time.
    pub processes: usize,
    /// The number of tasks of a process.
    pub tasks: u64,
    /// The ttl of the locks.
    pub ttl: Duration,
    /// How long the lock of a killed process may stay taken.
    pub lingers: Duration,
    /// The longest pause between two kills.
    pub pause: Duration,
    /// The number of grants that each lock has at least.
    pub grants: usize,
}

/// A store for one test, which other processes reach by its URL.
pub trait LiveStore: Sized + Send + Sync + 'static {
    /// The module that runs the suite on this store, by its path in the test program.
    const SUITE: &'static str = "every_store";
    /// What the store has of the needs of the suite.
    const CAN: &'static [Need];
    /// The locks of the histories of killed processes: of each kind that the store has.
    const LOCKS: &'static [(&'static str, Kind)] =
        &[("job", Kind::RwLock), ("book", Kind::RwLock), ("pool", Kind::Resized(&[3, 5]))];
    /// The shortest ttl that the store accepts, in whole seconds.
    const LEAST_TTL: Duration;
    /// What happens to the claims of a killed process.
    const ON_CRASH: Crash;
    /// How the histories of killed processes are played.
    const KILLED_PROCESSES: KilledProcesses = KilledProcesses {
        processes: 20,
        tasks: 4,
        ttl: Duration::from_secs(3),
        lingers: Duration::from_secs(15),
        pause: Duration::from_secs(1),
        grants: 200,
    };

    /// Starts a store for the calling test: the simplest one of its kind.
    ///
    /// # Errors
    /// If a server is not installed, with the command that installs it; if it does not start, with
    /// its output.
    fn start() -> Result<Self>;

    /// The URL for clients. [`with`] adds a parameter.
    fn url(&self) -> String;

    /// The registers of the store at this URL. A store without [`Need::Registers`] is not asked.
    fn register(url: &str) -> impl Future<Output = Arc<dyn Register>> + Send {
        async move { unreachable!("{url} has no registers") }
    }

    /// Waits until this many clients wait for the lock. `keeper` looks at the line. A store without
    /// a queue looks elsewhere.
    fn until_waiting(
        &self,
        keeper: &Keeper,
        name: &str,
        waiters: usize,
    ) -> impl Future<Output = ()> {
        crate::locks::until_waiting(keeper, name, waiters)
    }
}

/// A server, or several servers that are one store. Each method acts on all of them.
///
/// The clients of [`url`](LiveStore::url) reach the server itself. The clients of
/// [`url_through_proxies`](Self::url_through_proxies) reach it through one proxy before each
/// server, and only they are [isolated](Self::isolate).
pub trait Server: LiveStore {
    /// Starts a server that keeps what it has acknowledged, with several members if the store has
    /// members.
    ///
    /// # Errors
    /// As for [`start`](LiveStore::start).
    fn start_lasting() -> Result<Self>;

    /// `kill -9`.
    ///
    /// # Errors
    /// If the system refuses the signal.
    fn kill(&mut self) -> Result<()>;

    /// Starts the server again with its data on disk, after a `kill -9` if it still runs. Waits
    /// until the server answers.
    ///
    /// # Errors
    /// If the server does not start, or another process has its ports.
    fn restart(&mut self) -> Result<()>;

    /// `SIGSTOP`: the server stops, and its connections stay open.
    ///
    /// # Errors
    /// If the server does not run.
    fn pause(&mut self) -> Result<()>;

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// If the server does not run.
    fn resume(&mut self) -> Result<()>;

    /// The proxies before the servers.
    fn proxies(&self) -> &[Proxy];

    /// The URL for clients behind the [`proxies`](Self::proxies).
    fn url_through_proxies(&self) -> String;

    /// Stops the traffic in this direction between the server and the clients behind the proxies,
    /// as a network does that drops packets: the connections stay open, and what was sent arrives
    /// after [`heal`](Self::heal). The other clients, and the members among each other, notice
    /// nothing.
    fn isolate(&self, way: Way) {
        self.proxies().iter().for_each(|proxy| proxy.hold(way));
    }

    /// Ends [`isolate`](Self::isolate) and all other faults of the proxies. What waited arrives,
    /// and new connections are accepted.
    ///
    /// # Errors
    /// If another process has taken the port of a proxy.
    fn heal(&self) -> Result<()> {
        self.proxies().iter().try_for_each(|proxy| {
            proxy.heal();
            proxy.accept()
        })
    }

    /// Closes the connections of the clients behind the proxies, which may connect again.
    fn cut(&self) {
        self.proxies().iter().for_each(Proxy::cut);
    }

    /// Closes the connections of the clients behind the proxies, and refuses new ones until
    /// [`heal`](Self::heal).
    fn disconnect(&self) {
        self.proxies().iter().for_each(|proxy| {
            proxy.refuse();
            proxy.cut();
        });
    }

    /// Sets the clock by which the server ends leases to this many seconds after the real time, or
    /// before it if negative. The default is for a store without [`Need::Clock`].
    ///
    /// # Errors
    /// If the clock cannot be moved.
    fn shift_clock(&mut self, seconds: i64) -> Result<()> {
        bail!("the clock of this server cannot be set to {seconds} s from the real time")
    }

    /// Puts data of others around the lock of this name, as an application, another store or an
    /// older version may do. Round 0 puts the permanent data, and a later round what changes.
    ///
    /// # Errors
    /// If the server does not answer.
    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()>;

    /// Deletes all data of the store, its id too.
    ///
    /// # Errors
    /// If the server does not answer.
    fn wipe(&self) -> Result<()>;
}
