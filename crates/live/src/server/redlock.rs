//! A Redlock under the fault suite.

use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Keeper, LockName};
use lockkeeper_testing::Crash;
use lockkeeper_testing::history::Kind;

use super::{KilledProcesses, LiveStore, Need, Server, with};
use crate::locks::{TIME_LIMIT, within};
use crate::proxy::Proxy;
use crate::redis::{Redis, RedisBuilder};
use crate::redlock::Redlock;

/// Some cases hold locks for minutes. A busy machine takes longer than 50 ms to answer.
const QUERY: &str = "max-keep=1h&node-timeout=240ms";

/// The number of servers.
const NODES: usize = 3;
/// The number of servers without which there is no lock.
const QUORUM: usize = 2;

/// Three independent servers with clocks of their own, each behind a proxy. The first `FAILING` of
/// them fail, all at the same time.
#[derive(Debug)]
pub struct RedlockServer<const FAILING: usize = NODES> {
    redlock: Redlock,
    proxies: Vec<Proxy>,
}

impl<const FAILING: usize> RedlockServer<FAILING> {
    fn of(settings: RedisBuilder) -> Result<Self> {
        let redlock = Redlock::of(NODES, &settings.with_clock())?;
        let proxies = redlock
            .nodes()
            .iter()
            .map(|node| Proxy::resp(node.address()))
            .collect::<Result<_>>()?;
        Ok(Self { redlock, proxies })
    }

    fn failing(&mut self) -> impl Iterator<Item = &mut Redis> {
        self.redlock.nodes_mut().take(FAILING)
    }
}

impl<const FAILING: usize> LiveStore for RedlockServer<FAILING> {
    const CAN: &'static [Need] = &[Need::Server, Need::Clock];
    /// A held lock is not converted.
    const LOCKS: &'static [(&'static str, Kind)] = &[("job", Kind::Mutex), ("book", Kind::Mutex)];
    const LEAST_TTL: Duration = Duration::from_secs(1);
    const ON_CRASH: Crash = Crash::Silent;
    /// Each request goes to three servers.
    const KILLED_PROCESSES: KilledProcesses = KilledProcesses {
        processes: 6,
        tasks: 3,
        ttl: Duration::from_secs(2),
        lingers: Duration::from_secs(15),
        pause: Duration::from_secs(1),
        grants: 30,
    };

    fn start() -> Result<Self> {
        Self::of(Redis::builder())
    }

    fn url(&self) -> String {
        with(&self.redlock.url(), QUERY)
    }

    /// A majority of the servers keeps so many waiters.
    #[allow(clippy::unwrap_used, reason = "a failing test panics")]
    async fn until_waiting(&self, _keeper: &Keeper, name: &str, waiters: usize) {
        let name: LockName = name.parse().unwrap();
        let key = format!("lk:r:{{{}}}:w", name.encoded());
        let waiting = |node: &&Redis| node.query::<usize>(&["ZCARD", &key]).unwrap() >= waiters;
        let look = async {
            while self.redlock.nodes().iter().filter(waiting).count() < QUORUM {
                tokio::task::yield_now().await;
            }
        };
        within(TIME_LIMIT * 2, look).await;
    }
}

impl<const FAILING: usize> Server for RedlockServer<FAILING> {
    fn start_lasting() -> Result<Self> {
        Self::of(Redis::builder().persistent())
    }

    fn kill(&mut self) -> Result<()> {
        self.failing().try_for_each(Redis::kill)
    }

    /// The servers have all their data, and count again at once, as after `doctor --init`.
    fn restart(&mut self) -> Result<()> {
        (0..FAILING).try_for_each(|node| self.redlock.restart(node))
    }

    fn pause(&mut self) -> Result<()> {
        self.failing().try_for_each(Redis::pause)
    }

    fn resume(&mut self) -> Result<()> {
        self.failing().try_for_each(Redis::resume)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies[..FAILING]
    }

    fn url_through_proxies(&self) -> String {
        with(&self.redlock.url_through(&self.proxies), QUERY)
    }

    fn shift_clock(&mut self, seconds: i64) -> Result<()> {
        self.failing().try_for_each(|node| node.set_clock_offset(seconds))
    }

    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        self.redlock.put_foreign_data(name, round)
    }

    fn wipe(&self) -> Result<()> {
        self.redlock.nodes().iter().try_for_each(|node| node.run(&["FLUSHALL"]))?;
        self.redlock.initialize()
    }
}
