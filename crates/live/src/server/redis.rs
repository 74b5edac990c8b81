//! A Redis server under the fault suite.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::optimistic::Register;
use lockkeeper::{LockName, RedisStore};
use lockkeeper_testing::Crash;

use super::{LiveStore, Need, Server};
use crate::locks::patiently_connected;
use crate::proxy::Proxy;
use crate::redis::{Redis, RedisBuilder};

/// A standalone Redis with a clock of its own, behind a proxy.
#[derive(Debug)]
pub struct RedisServer {
    redis: Redis,
    proxy: Proxy,
}

impl RedisServer {
    fn of(settings: RedisBuilder) -> Result<Self> {
        let redis = settings.with_clock().start()?;
        let proxy = Proxy::resp(redis.address())?;
        Ok(Self { redis, proxy })
    }
}

impl LiveStore for RedisServer {
    const CAN: &'static [Need] =
        &[Need::Server, Need::Clock, Need::Queue, Need::Detached, Need::Registers];
    const LEAST_TTL: Duration = Duration::from_secs(1);
    const ON_CRASH: Crash = Crash::Silent;

    fn start() -> Result<Self> {
        Self::of(Redis::builder())
    }

    fn url(&self) -> String {
        self.redis.url()
    }

    #[allow(clippy::unwrap_used, reason = "a failing test panics")]
    async fn register(url: &str) -> Arc<dyn Register> {
        let store = RedisStore::from_url(&url.parse().unwrap()).unwrap();
        Arc::new(patiently_connected(|| store.clone().connect()).await.register())
    }
}

impl Server for RedisServer {
    fn start_lasting() -> Result<Self> {
        Self::of(Redis::builder().persistent())
    }

    fn kill(&mut self) -> Result<()> {
        self.redis.kill()
    }

    fn restart(&mut self) -> Result<()> {
        self.redis.restart()
    }

    fn pause(&mut self) -> Result<()> {
        self.redis.pause()
    }

    fn resume(&mut self) -> Result<()> {
        self.redis.resume()
    }

    fn proxies(&self) -> &[Proxy] {
        std::slice::from_ref(&self.proxy)
    }

    fn url_through_proxies(&self) -> String {
        self.redis.url_through(&self.proxy)
    }

    fn shift_clock(&mut self, seconds: i64) -> Result<()> {
        self.redis.set_clock_offset(seconds)
    }

    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        self.redis.put_foreign_data(name, round)
    }

    fn wipe(&self) -> Result<()> {
        self.redis.run(&["FLUSHALL"])
    }
}
