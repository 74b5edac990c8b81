//! An etcd under the fault suite.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::optimistic::Register;
use lockkeeper::{EtcdStore, LockName};
use lockkeeper_testing::Crash;

use super::{KilledProcesses, LiveStore, Need, Server};
use crate::etcd::Etcd;
use crate::locks::patiently_connected;
use crate::proxy::Proxy;

/// The number of members of an etcd that keeps its locks while a member fails.
const MEMBERS: usize = 3;

/// An etcd with a proxy before each member. Its leases run on the monotonic clock of the host,
/// which nobody can move.
#[derive(Debug)]
pub struct EtcdServer {
    etcd: Etcd,
    proxies: Vec<Proxy>,
}

impl EtcdServer {
    fn of(members: usize) -> Result<Self> {
        let etcd = Etcd::builder().members(members).start()?;
        let proxies = etcd.addresses().into_iter().map(Proxy::raw).collect::<Result<_>>()?;
        Ok(Self { etcd, proxies })
    }

    fn each(&mut self, act: impl Fn(&mut Etcd, usize) -> Result<()>) -> Result<()> {
        (0..self.proxies.len()).try_for_each(|member| act(&mut self.etcd, member))
    }
}

impl LiveStore for EtcdServer {
    const CAN: &'static [Need] = &[Need::Server, Need::Queue, Need::Detached, Need::Registers];
    const LEAST_TTL: Duration = Duration::from_secs(2);
    const ON_CRASH: Crash = Crash::Silent;
    /// The lock of a killed process costs its waiters seconds, so fewer processes are killed.
    const KILLED_PROCESSES: KilledProcesses = KilledProcesses {
        processes: 6,
        tasks: 4,
        ttl: Duration::from_secs(2),
        lingers: Duration::from_secs(20),
        pause: Duration::from_secs(3),
        grants: 50,
    };

    fn start() -> Result<Self> {
        Self::of(1)
    }

    fn url(&self) -> String {
        self.etcd.url()
    }

    #[allow(clippy::unwrap_used, reason = "a failing test panics")]
    async fn register(url: &str) -> Arc<dyn Register> {
        let store = EtcdStore::from_url(&url.parse().unwrap()).unwrap();
        Arc::new(patiently_connected(|| store.clone().connect()).await.register())
    }
}

impl Server for EtcdServer {
    fn start_lasting() -> Result<Self> {
        Self::of(MEMBERS)
    }

    fn kill(&mut self) -> Result<()> {
        self.each(Etcd::kill)
    }

    fn restart(&mut self) -> Result<()> {
        self.etcd.restart_all()?;
        self.etcd.leader().map(|_| ())
    }

    fn pause(&mut self) -> Result<()> {
        self.each(Etcd::pause)
    }

    fn resume(&mut self) -> Result<()> {
        self.each(Etcd::resume)
    }

    fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    fn url_through_proxies(&self) -> String {
        self.etcd.url_through(&self.proxies.iter().collect::<Vec<_>>())
    }

    fn put_foreign_data(&self, name: &LockName, round: usize) -> Result<()> {
        self.etcd.put_foreign_data(name, round)
    }

    fn wipe(&self) -> Result<()> {
        self.etcd.control().delete_all("/lockkeeper/")
    }
}
