//! The servers that all tests of a process use together.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::certificates::Certificates;
use crate::etcd::Etcd;
use crate::redis::{Cluster, Redis, Sentinel};
use crate::redlock::Redlock;

/// A time for which no server is silent, not even on a busy machine.
const A_LONG_TIME: Duration = Duration::from_secs(30);

/// etcd's default time before an election. No lease is shorter than one and a half times this time.
const A_SHORT_TIME: Duration = Duration::from_secs(1);

/// A standalone Redis without persistence.
///
/// # Errors
/// If Redis is not installed, with the command that installs it; if Redis does not start, with its
/// output.
pub fn redis() -> Result<&'static Redis> {
    static SHARED: OnceLock<Result<Redis, String>> = OnceLock::new();
    shared(&SHARED, Redis::start)
}

/// A standalone Redis whose only port is encrypted.
///
/// # Errors
/// As for [`redis()`].
pub fn redis_tls() -> Result<&'static Redis> {
    static SHARED: OnceLock<Result<Redis, String>> = OnceLock::new();
    shared(&SHARED, || Redis::builder().tls(Certificates::new()?).start())
}

/// Three Sentinels, a Redis and its replica. The time-outs of the servers are long, so that a busy
/// machine causes no failover.
///
/// # Errors
/// As for [`redis()`].
pub fn sentinel() -> Result<&'static Sentinel> {
    static SHARED: OnceLock<Result<Sentinel, String>> = OnceLock::new();
    shared(&SHARED, || Sentinel::builder().down_after(A_LONG_TIME).start())
}

/// A Redis cluster of three nodes with a replica each. The time-outs of the servers are long, so
/// that a busy machine causes no failover.
///
/// # Errors
/// As for [`redis()`].
pub fn cluster() -> Result<&'static Cluster> {
    static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
    shared(&SHARED, || Cluster::builder().node_timeout(A_LONG_TIME).start())
}

/// Three independent servers of a Redlock.
///
/// # Errors
/// As for [`redis()`].
pub fn redlock() -> Result<&'static Redlock> {
    static SHARED: OnceLock<Result<Redlock, String>> = OnceLock::new();
    shared(&SHARED, Redlock::start)
}

/// Five independent servers of a Redlock.
///
/// # Errors
/// As for [`redis()`].
pub fn redlock_of_five() -> Result<&'static Redlock> {
    static SHARED: OnceLock<Result<Redlock, String>> = OnceLock::new();
    shared(&SHARED, || Redlock::of(5, &Redis::builder()))
}

/// Three independent servers of Valkey, for a Redlock.
///
/// # Errors
/// If Valkey is not installed, with the command that installs it; if Valkey does not start, with
/// its output.
pub fn redlock_of_valkeys() -> Result<&'static Redlock> {
    static SHARED: OnceLock<Result<Redlock, String>> = OnceLock::new();
    shared(&SHARED, || Redlock::of(3, &Redis::builder().valkey()))
}

/// An etcd of one member, of the current version.
///
/// # Errors
/// If etcd is not built, with the command that builds it; if etcd does not start, with its output.
pub fn etcd() -> Result<&'static Etcd> {
    static SHARED: OnceLock<Result<Etcd, String>> = OnceLock::new();
    shared(&SHARED, Etcd::start)
}

/// An etcd of three members. The time-outs of the members are long, so that a busy machine causes
/// no election.
///
/// # Errors
/// As for [`etcd()`].
pub fn etcd_three() -> Result<&'static Etcd> {
    static SHARED: OnceLock<Result<Etcd, String>> = OnceLock::new();
    shared(&SHARED, || Etcd::builder().members(3).election_timeout(A_SHORT_TIME).start())
}

/// An etcd of one member, whose port for clients is encrypted.
///
/// # Errors
/// As for [`etcd()`].
pub fn etcd_tls() -> Result<&'static Etcd> {
    static SHARED: OnceLock<Result<Etcd, String>> = OnceLock::new();
    shared(&SHARED, || Etcd::builder().tls(Certificates::new()?).start())
}

/// An etcd of one member, of Debian's version.
///
/// # Errors
/// If etcd is not installed, with the command that installs it; if etcd does not start, with its
/// output.
pub fn etcd_debian() -> Result<&'static Etcd> {
    static SHARED: OnceLock<Result<Etcd, String>> = OnceLock::new();
    shared(&SHARED, || Etcd::builder().debian().start())
}

/// An etcd of one member, of the oldest version that lockkeeper accepts.
///
/// # Errors
/// As for [`etcd()`].
pub fn etcd_oldest() -> Result<&'static Etcd> {
    static SHARED: OnceLock<Result<Etcd, String>> = OnceLock::new();
    shared(&SHARED, || Etcd::builder().oldest().start())
}

/// The first caller starts the server; a second caller waits meanwhile.
fn shared<T>(
    cell: &'static OnceLock<Result<T, String>>,
    start: fn() -> Result<T>,
) -> Result<&'static T> {
    let started = cell.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("{error}"))
}
