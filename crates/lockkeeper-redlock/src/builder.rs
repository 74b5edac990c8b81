//! Opening a Redlock store.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::kit::Hosts;
use lockkeeper_core::{Result, Secret};

use crate::RedlockStore;
use crate::setup::{NO_MEMBER, Setup};

/// The options for a [`RedlockStore`]. A keeper takes the builder unopened too: see
/// [`Open`](lockkeeper_core::Open).
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct RedlockStoreBuilder {
    pub(crate) setup: Setup,
}

lockkeeper_redis_client::server_options!(RedlockStoreBuilder);

impl RedlockStoreBuilder {
    /// Sets the user and the password of each server, in the order of the servers, where they
    /// differ. A server without a login here has that of [`user`](Self::user) and
    /// [`password`](Self::password).
    pub fn logins(
        mut self,
        logins: impl IntoIterator<Item = (Option<String>, Option<Secret>)>,
    ) -> Self {
        self.setup.logins = logins.into_iter().collect();
        self
    }

    /// Sets the longest ttl and lock-delay together, which is also the time for which a server does
    /// not count after it was started again; 60 s by default. All clients of the servers need the
    /// same: the servers keep that of the first client, and a client with another one is refused.
    pub fn max_keep(mut self, max_keep: Duration) -> Self {
        self.setup.max_keep = max_keep;
        self
    }

    /// Sets the names of the servers by which the other clients know them, in the order of the
    /// servers, where the addresses here are other names of them, as behind a tunnel. A server
    /// refuses a client that names other servers than its first client, or
    /// [`assume_fresh`](Self::assume_fresh), has named.
    pub fn members<H: AsRef<str>>(mut self, members: impl IntoIterator<Item = H>) -> Self {
        self.setup.members = Some(Hosts::new(members, NO_MEMBER));
        self
    }

    /// Sets how long an attempt waits for one server; by default 50 ms, or a 200th of a longer ttl.
    /// A lock needs a ttl of four times as long.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.setup.node_timeout = Some(timeout);
        self
    }

    /// States that no server has forgotten a lock: the servers count at once, and not only
    /// [`max_keep`](Self::max_keep) after they are seen for the first time. For a fresh
    /// installation, and for tests. While another client holds a lock, this may give the lock away
    /// again. All clients need the same servers from then on: see [`members`](Self::members).
    pub fn assume_fresh(mut self) -> Self {
        self.setup.assumes_fresh = true;
        self
    }

    /// Connects to a majority of the servers at least, and checks whether locks can be relied on
    /// there.
    ///
    /// # Errors
    /// - `Unavailable`: too few servers answer.
    /// - `Denied`: the wrong password, or too few rights.
    /// - `Unsupported`: a [`Check`](crate::Check) fails, or the other clients have other servers.
    /// - `Invalid`: fewer than three servers, one server twice, another `max-keep` than the
    ///   other clients have, or an address or a file that cannot be used.
    ///
    /// # Cancel safety
    /// The future may be dropped. Its connections are closed then.
    pub async fn connect(self) -> Result<RedlockStore> {
        self.setup.check()?;
        Ok(RedlockStore::open(self.setup).await?.0)
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for RedlockStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.setup.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::ErrorKind;

    #[tokio::test]
    async fn fewer_than_three_servers_are_refused_when_the_store_is_built() {
        for hosts in [&["a"][..], &["a", "b"], &["a", "a", "b"], &[]] {
            let error = RedlockStore::new(hosts).connect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{hosts:?}: {error}");
        }
    }

    #[tokio::test]
    async fn times_that_no_url_takes_are_refused_when_the_store_is_built() {
        let new = || RedlockStore::new(["a", "b", "c"]);
        let (none, day) = (Duration::ZERO, Duration::from_secs(24 * 3600));
        for builder in [
            new().max_keep(none),
            new().max_keep(day * 2),
            new().max_keep(Duration::from_micros(1_500_500)),
            new().node_timeout(none),
            new().node_timeout(day),
        ] {
            let error = builder.connect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.remedy().is_some_and(|remedy| remedy.contains("at least")), "{error}");
        }
    }

    #[test]
    fn a_builder_shows_its_addresses_with_the_ports() {
        let builder = RedlockStore::new(["a", "[::1]:7", "c"]).db(2);
        assert_eq!(builder.to_string(), "redlock://a:6379,[::1]:7,c:6379/2");
    }
}
