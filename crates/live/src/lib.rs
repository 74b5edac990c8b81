//! What the tests of lockkeeper run against: real servers, a proxy between them and their clients that makes faults, and
//! clocks that can be moved.
//!
//! - A server is started by the test process and ends with it, however it ends: [`Redis`], [`Etcd`], ….
//! - One server per kind is shared by the tests of a process, for those that do it no harm: [`redis()`], [`etcd()`], …. Whoever
//!   stops, kills or sets up a server starts one of his own; a shared one cannot be stopped, since that takes `&mut`.
//! - What is not installed is an error with the line that installs it, never a reason to skip a test.
//! - A [`Proxy`] loses, delays, doubles and cuts what goes through it, and tells what came, so that no test has to sleep.

mod certificates;
mod clock;
mod dialogue;
mod etcd;
mod nursery;
mod port;
mod process;
mod program;
mod proxy;
mod redis;
mod shared;

pub use self::certificates::Certificates;
pub use self::dialogue::Dialogue;
pub use self::etcd::{Control, Entry, Etcd, EtcdBuilder};
pub use self::program::{Program, interop_binary, lockkeeper_binary};
pub use self::proxy::{Act, Message, Proxy, Seen, Way};
pub use self::redis::{Cluster, ClusterBuilder, Redis, RedisBuilder, Sentinel, SentinelBuilder};
pub use self::shared::{cluster, etcd, etcd_debian, etcd_oldest, etcd_three, etcd_tls, redis, redis_tls, sentinel};
