//! Opening a Redis store.

use std::fmt;

use super::RedisStore;
use super::setup::Setup;
use crate::Result;

/// The options for a [`RedisStore`]. A keeper takes the builder unopened too: see
/// [`Open`](lockkeeper_core::Open).
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct RedisStoreBuilder {
    pub(super) setup: Setup,
}

lockkeeper_redis_client::deployment_options!(RedisStoreBuilder);

impl RedisStoreBuilder {
    /// Sets how many replicas must acknowledge a grant before the store hands out the lock, and a
    /// renewal before it counts; 0 by default. This shortens the time in which a failover loses a
    /// held lock. It does not remove that time: the replica that takes over may be one that has not
    /// acknowledged.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.setup.min_replicas = replicas;
        self
    }

    /// Connects, and checks whether locks can be relied on there.
    ///
    /// # Errors
    /// - `Unavailable`: no server answers, or no Sentinel knows the master.
    /// - `Denied`: the wrong password, or too few rights.
    /// - `Unsupported`: a [`Check`](crate::Check) fails.
    /// - `Invalid`: an address or a file that cannot be used.
    ///
    /// # Cancel safety
    /// The future may be dropped. Its connection is closed then.
    pub async fn connect(self) -> Result<RedisStore> {
        self.setup.hosts.check()?;
        RedisStore::open(self.setup).await
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
    use std::time::Duration;

    use lockkeeper_redis_client::setup::TIMEOUT;

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
