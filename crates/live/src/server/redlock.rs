//! A Redlock under the fault suite.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::LockName;
use lockkeeper::optimistic::Register;
use lockkeeper_testing::Crash;

use super::{LiveStore, Need, Server};
use crate::proxy::Proxy;
use crate::redis::{Redis, RedisBuilder};
use crate::redlock::Redlock;

/// Some cases hold locks for minutes. A busy machine takes longer than 50 ms to answer.
const QUERY: &str = "?max-keep=1h&node-timeout=240ms";

/// Three independent servers with clocks of their own, each behind a proxy. All of them fail
/// together.
#[derive(Debug)]
pub struct RedlockServer {
    redlock: Redlock,
    proxies: Vec<Proxy>,
}

impl RedlockServer {
    fn of(settings: RedisBuilder) -> Result<Self> {
        let redlock = Redlock::of(3, &settings.with_clock())?;
        let proxies = redlock
            .nodes()
            .iter()
            .map(|node| Proxy::resp(node.address()))
            .collect::<Result<_>>()?;
        Ok(Self { redlock, proxies })
    }
}

impl LiveStore for RedlockServer {
    const CAN: &'static [Need] = &[Need::Server, Need::Clock];
    const LEAST_TTL: Duration = Duration::from_secs(1);
    const ON_CRASH: Crash = Crash::Silent;

    fn start() -> Result<Self> {
        Self::of(Redis::builder())
    }

    fn url(&self) -> String {
        self.redlock.url() + QUERY
    }

    async fn register(_url: &str) -> Arc<dyn Register> {
        unreachable!("a Redlock has no registers")
    }
}

impl Server for RedlockServer {
    fn start_lasting() -> Result<Self> {
        Self::of(Redis::builder().persistent())
    }

    fn kill(&mut self) -> Result<()> {
        self.redlock.nodes_mut().try_for_each(Redis::kill)
    }

    /// The servers have all their data, and count again at once, as after `doctor --init`.
    fn restart(&mut self) -> Result<()> {
        self.redlock.nodes_mut().try_for_each(Redis::restart)?;
        self.redlock.initialize()
    }

    fn pause(&mut self) -> Result<()> {
        self.redlock.nodes_mut().try_for_each(Redis::pause)
    }

    fn resume(&mut self) -> Result<()> {
        self.redlock.nodes_mut().try_for_each(Redis::resume)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    fn url_through_proxies(&self) -> String {
        self.redlock.url_through(&self.proxies) + QUERY
    }

    fn shift_clock(&mut self, seconds: i64) -> Result<()> {
        self.redlock.nodes().iter().try_for_each(|node| node.set_clock_offset(seconds))
    }

    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        self.redlock.put_foreign_data(name, round)
    }

    fn wipe(&self) -> Result<()> {
        self.redlock.nodes().iter().try_for_each(|node| node.run(&["FLUSHALL"]))?;
        self.redlock.initialize()
    }
}
