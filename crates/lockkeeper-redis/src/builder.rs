//! Opening a Redis store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::setup::{Setup, TIMEOUT};
use super::{Check, RedisStore};
use crate::store::Store;
use crate::{Open, Result, Secret, Tls};

/// The options for a [`RedisStore`]. A keeper takes the builder unopened too: see [`Open`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct RedisStoreBuilder {
    pub(super) setup: Setup,
}

impl RedisStoreBuilder {
    /// Logs in as this user of the server's access list; the default user by default. If no
    /// password is set, the user logs in with the empty password.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.setup.hosts.user = Some(user.into());
        self
    }

    /// Logs in with this password, at Sentinels too, unless
    /// [`sentinel_login`](Self::sentinel_login) sets another login.
    pub fn password(mut self, password: Secret) -> Self {
        self.setup.hosts.password = Some(password);
        self
    }

    /// Logs in to the Sentinels as this user, with this password.
    pub fn sentinel_login(mut self, user: Option<&str>, password: Option<Secret>) -> Self {
        self.setup.sentinel_user = user.map(str::to_owned);
        self.setup.sentinel_password = password;
        self
    }

    /// Encrypts all connections.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.setup.hosts.tls = Some(tls);
        self
    }

    /// Sets the number of the database; 0 by default. A Cluster has only database 0.
    pub fn db(mut self, db: u32) -> Self {
        self.setup.db = db;
        self
    }

    /// Sets how many replicas must acknowledge a grant before the store hands out the lock, and a
    /// renewal before it counts; 0 by default. This shortens the time in which a failover loses a
    /// held lock. It does not remove that time: the replica that takes over may be one that has not
    /// acknowledged.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.setup.min_replicas = replicas;
        self
    }

    /// Sets how long a request may stay without an answer before the connection counts as broken; 3
    /// s by default, at least 50 ms and at most 24 h.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.setup.hosts.timeout = TIMEOUT.nearest(timeout);
        self
    }

    /// Speaks RESP2, with a second connection for the messages that the server pushes. By default
    /// RESP3 is tried first.
    pub fn resp2(mut self) -> Self {
        self.setup.resp2 = true;
        self
    }

    /// Waives this check: the store connects although the check fails.
    pub fn allow(mut self, check: Check) -> Self {
        self.setup.waived.push(check);
        self
    }

    /// Connects, and checks whether locks can be relied on there.
    ///
    /// # Errors
    /// - `Unavailable`: no server answers, or no Sentinel knows the master.
    /// - `Denied`: the wrong password, or too few rights.
    /// - `Unsupported`: a [`Check`] fails.
    /// - `Invalid`: an address or a file that cannot be used.
    ///
    /// # Cancel safety
    /// The future may be dropped. Its connection is closed then.
    pub async fn connect(self) -> Result<RedisStore> {
        self.setup.hosts.check()?;
        RedisStore::open(self.setup).await
    }
}

#[async_trait]
impl Open<dyn Store> for RedisStoreBuilder {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.connect().await?))
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.setup.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_shows_its_address_with_the_port() {
        assert_eq!(RedisStore::standalone("h").to_string(), "redis://h:6379");
        assert_eq!(
            RedisStore::cluster(["[::1]:7", "h"]).to_string(),
            "redis+cluster://[::1]:7,h:6379"
        );
        assert_eq!(
            RedisStore::sentinel(["h"], "m").db(2).to_string(),
            "redis+sentinel://h:26379/m/2"
        );
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_read_learns_when_it_is_used() {
        let error = RedisStore::standalone("a:b:c").connect().await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid);
        assert!(RedisStore::cluster(Vec::<String>::new()).connect().await.is_err());
    }

    #[test]
    fn no_timeout_is_too_long_to_be_counted() {
        let store = RedisStore::standalone("h").timeout(Duration::MAX);
        assert_eq!(store.setup.hosts.timeout, TIMEOUT.most);
        let store = RedisStore::standalone("h").timeout(Duration::ZERO);
        assert_eq!(store.setup.hosts.timeout, TIMEOUT.least);
    }
}
