//! A Redis server with the locks of another library, under the fault suite.

use std::marker::PhantomData;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Keeper, LockName};
use lockkeeper_testing::Crash;
use lockkeeper_testing::history::Kind;

use super::{KilledProcesses, LiveStore, Need, Server};
use crate::contract::{
    FairLayout, FencedLayout, OnePermitLayout, PlainLayout, Protocol, RedissonLayout, RwLayout,
};
use crate::locks::{TIME_LIMIT, within};
use crate::proxy::Proxy;
use crate::redis::{Redis, RedisBuilder};

const MUTEXES: &[(&str, Kind)] = &[("job", Kind::Mutex), ("book", Kind::Mutex)];

/// A layout of another library.
pub trait ForeignLayout: Protocol {
    /// The module of the suite, and of a part of the suite.
    const SUITE: &'static str;
    /// The scheme of the URL.
    const SCHEME: &'static str = "redis";
    /// What is around `{NAME}` in the channel to which the waiters of a lock listen.
    const CHANNEL: [&'static str; 2];
    /// Whether the waiters are in a queue, which a look shows.
    const HAS_QUEUE: bool = false;
    /// The locks of the histories.
    const LOCKS: &'static [(&'static str, Kind)] = MUTEXES;
}

impl ForeignLayout for PlainLayout {
    const SUITE: &'static str = "every_store";
    const CHANNEL: [&'static str; 2] = ["lkf:", ":channel"];
}

impl ForeignLayout for RedissonLayout {
    const SUITE: &'static str = "redisson";
    const CHANNEL: [&'static str; 2] = ["redisson_lock__channel:", ""];
}

impl ForeignLayout for FencedLayout {
    const SUITE: &'static str = "redisson_fenced";
    const CHANNEL: [&'static str; 2] = ["redisson_lock__channel:", ""];
}

impl ForeignLayout for FairLayout {
    const SUITE: &'static str = "redisson_fair::every_store";
    const CHANNEL: [&'static str; 2] = ["redisson_lock__channel:", ""];
    const HAS_QUEUE: bool = true;
}

impl ForeignLayout for RwLayout {
    const SUITE: &'static str = "redisson_rw::every_store";
    const CHANNEL: [&'static str; 2] = ["redisson_rwlock:", ""];
    const LOCKS: &'static [(&'static str, Kind)] = &[("job", Kind::RwLock), ("book", Kind::Mutex)];
}

impl ForeignLayout for OnePermitLayout {
    const SUITE: &'static str = "redisson_semaphore";
    const SCHEME: &'static str = "permit";
    const CHANNEL: [&'static str; 2] = ["redisson_sc:", ""];
}

/// A standalone Redis with a clock of its own, behind a proxy.
#[derive(Debug)]
pub struct ForeignServer<L> {
    redis: Redis,
    proxy: Proxy,
    layout: PhantomData<L>,
}

impl<L: ForeignLayout> ForeignServer<L> {
    fn of(settings: RedisBuilder) -> Result<Self> {
        let redis = settings.with_clock().start()?;
        let proxy = Proxy::resp(redis.address())?;
        Ok(Self { redis, proxy, layout: PhantomData })
    }

    fn listeners(&self, name: &str) -> Result<usize> {
        let channel = L::CHANNEL.join(&format!("{{{name}}}"));
        let (_, count): (String, usize) = self.redis.query(&["PUBSUB", "NUMSUB", &channel])?;
        Ok(count)
    }

    fn url_of(url: &str) -> String {
        url.replacen("redis", L::SCHEME, 1) + L::QUERY
    }
}

impl<L: ForeignLayout> LiveStore for ForeignServer<L> {
    const SUITE: &'static str = L::SUITE;
    const CAN: &'static [Need] = match L::HAS_QUEUE {
        true => &[Need::Server, Need::Clock, Need::Detached, Need::Queue],
        false => &[Need::Server, Need::Clock, Need::Detached],
    };
    const LOCKS: &'static [(&'static str, Kind)] = L::LOCKS;
    const LEAST_TTL: Duration = Duration::from_secs(1);
    const ON_CRASH: Crash = Crash::Silent;
    /// Without a queue all waiters ask after a release.
    const KILLED_PROCESSES: KilledProcesses = KilledProcesses {
        processes: 8,
        tasks: 3,
        ttl: Duration::from_secs(2),
        lingers: Duration::from_secs(15),
        pause: Duration::from_secs(1),
        grants: 50,
    };

    fn start() -> Result<Self> {
        Self::of(Redis::builder())
    }

    fn url(&self) -> String {
        Self::url_of(&self.redis.url())
    }

    /// So many clients are in the queue, or listen for the release.
    #[allow(clippy::unwrap_used, reason = "a failing test panics")]
    async fn until_waiting(&self, keeper: &Keeper, name: &str, waiters: usize) {
        if L::HAS_QUEUE {
            return crate::locks::until_waiting(keeper, name, waiters).await;
        }
        let look = async {
            while self.listeners(name).unwrap() < waiters {
                tokio::task::yield_now().await;
            }
        };
        within(TIME_LIMIT * 2, look).await;
    }
}

impl<L: ForeignLayout> Server for ForeignServer<L> {
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
        Self::url_of(&self.redis.url_through(&self.proxy))
    }

    fn shift_clock(&mut self, seconds: i64) -> Result<()> {
        self.redis.set_clock_offset(seconds)
    }

    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        self.redis.put_foreign_data_beside_others(name, round)
    }

    fn wipe(&self) -> Result<()> {
        self.redis.run(&["FLUSHALL"])
    }
}
