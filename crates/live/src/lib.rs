//! The environment of lockkeeper's live tests: real servers, a proxy that makes faults between the
//! servers and their clients, and clocks that can be moved.
//!
//! The test process starts a server, and the server ends with this process, however the process
//!   ends: [`Redis`], [`Etcd`], ….
//! The tests of a process share one server per kind, if they do the server no harm: [`redis()`],
//!   [`etcd()`], …. A test that stops, kills or configures a server starts a server of its own. A
//!   shared server cannot be stopped, since that takes `&mut`.
//! - A missing program is an error with the command that installs it, never a reason to skip a
//!   test.
//! - [`faults`] has the fault suite: each fault once, for every [`LiveStore`] and [`Server`].
//! - [`contract`] has the harnesses of the contract suite on these servers.
//! - [`locks`] has what the tests of all stores share; the rest knows nothing of locks.
//! - A [`Proxy`] loses, delays, doubles and cuts the traffic through it, and reports the traffic,
//!   so that no test has to sleep.

mod certificates;
mod clock;
pub mod contract;
mod dialogue;
mod etcd;
pub mod faults;
mod foreign;
pub mod locks;
mod nursery;
mod port;
mod process;
mod program;
mod proxy;
mod redis;
mod redlock;
mod server;
mod shared;

#[doc(hidden)]
pub use lockkeeper_testing as testing;

pub use self::certificates::Certificates;
pub use self::dialogue::Dialogue;
pub use self::etcd::{Control, Entry, Etcd, EtcdBuilder};
pub use self::program::{Program, interop_binary, lockkeeper_binary};
pub use self::proxy::{Act, Message, Proxy, Seen, Way};
pub use self::redis::{
    Cluster, ClusterBuilder, Redis, RedisBuilder, Sentinel, SentinelBuilder, StandingClock,
};
pub use self::redlock::Redlock;
pub use self::server::{
    EtcdServer, ForeignLayout, ForeignServer, KilledProcesses, LiveStore, Need, RedisServer,
    RedlockServer, Server, with,
};
pub use self::shared::{
    cluster, etcd, etcd_debian, etcd_oldest, etcd_three, etcd_tls, redis, redis_tls, redlock,
    redlock_of_five, redlock_of_valkeys, sentinel,
};
