//! Opening a store on the locks of another library.

use std::fmt;
use std::time::Duration;

use super::{ForeignRedisStore, Layout, Setup};
use crate::Result;
use crate::store::Capabilities;

/// The options for a [`ForeignRedisStore`]. A keeper takes the builder unopened too: see
/// [`Open`](lockkeeper_core::Open).
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct ForeignRedisStoreBuilder {
    pub(super) setup: Setup,
    pub(super) layout: Layout,
    pub(super) adopt_ttl: Duration,
    pub(super) capabilities: Capabilities,
}

lockkeeper_redis_client::deployment_options!(ForeignRedisStoreBuilder);

impl ForeignRedisStoreBuilder {
    pub(super) fn of(setup: Setup, layout: Layout) -> Self {
        let capabilities = layout.capabilities().clone();
        Self { setup, layout, adopt_ttl: Duration::ZERO, capabilities }
    }

    /// Gives this ttl to a key of the simple lock that has none, when lockkeeper finds it in its
    /// way: its program may have died between `SETNX` and `EXPIRE`. By default such a key stays,
    /// and lockkeeper only reports it. Other layouts have no such keys.
    pub fn adopt_ttl(mut self, ttl: Duration) -> Self {
        self.adopt_ttl = ttl;
        self
    }

    /// Takes this as `lockWatchdogTimeout` of Redisson's clients; 30 s by default, as there. In
    /// [`Layout::RedissonRw`] a ttl with its lock-delay may be this long: the watchdog of a reader
    /// of Redisson shortens the life of the whole lock to this time. It has no effect elsewhere.
    pub fn watchdog(mut self, timeout: Duration) -> Self {
        if self.layout == Layout::RedissonRw {
            let can = &mut self.capabilities;
            (can.ttl_max, can.lock_delay_max, can.keep_max) = (timeout, timeout, timeout);
        }
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
    pub async fn connect(self) -> Result<ForeignRedisStore> {
        self.setup.hosts.check()?;
        let address = self.to_string();
        let opened = ForeignRedisStore::open(self, &address).await;
        opened.map_err(|error| error.at(&address))
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for ForeignRedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}?layout={}", self.setup, self.layout.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_shows_its_address_with_the_layout() {
        let shown = |builder: ForeignRedisStoreBuilder| builder.to_string();
        assert_eq!(
            shown(ForeignRedisStore::standalone("h", Layout::Plain)),
            "redis://h:6379?layout=plain"
        );
        assert_eq!(
            shown(ForeignRedisStore::sentinel(["h"], "m", Layout::RedissonRw)),
            "redis+sentinel://h:26379/m?layout=redisson-rw"
        );
        assert_eq!(
            shown(ForeignRedisStore::cluster(["h"], Layout::Redisson)),
            "redis+cluster://h:6379?layout=redisson"
        );
    }
}
