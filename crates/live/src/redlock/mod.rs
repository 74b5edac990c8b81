//! Independent Redis servers, for a Redlock.

use anyhow::Result;

use crate::proxy::Proxy;
use crate::redis::{Redis, RedisBuilder};
use crate::server::with;

/// The usual number of servers.
const NODES: usize = 3;

/// Servers that know nothing of each other. Their locks count at once, as after
/// `lockkeeper doctor --init`.
#[derive(Debug)]
pub struct Redlock {
    nodes: Vec<Redis>,
}

impl Redlock {
    /// Three servers without persistence.
    ///
    /// # Errors
    /// If Redis is not installed, with the command that installs it; if Redis does not start, with
    /// its output.
    pub fn start() -> Result<Self> {
        Self::of(NODES, &Redis::builder())
    }

    /// So many servers with these settings.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn of(nodes: usize, settings: &RedisBuilder) -> Result<Self> {
        Self::of_each((0..nodes).map(|_| settings.clone()))
    }

    /// A server with each of these settings.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn of_each(settings: impl IntoIterator<Item = RedisBuilder>) -> Result<Self> {
        let nodes = settings.into_iter().map(RedisBuilder::start).collect::<Result<_>>()?;
        let redlock = Self { nodes };
        redlock.initialize()?;
        Ok(redlock)
    }

    /// The servers.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// One of the servers, to stop, kill or configure it.
    pub fn node(&mut self, node: usize) -> &mut Redis {
        &mut self.nodes[node]
    }

    /// Each of the servers.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Redis> {
        self.nodes.iter_mut()
    }

    /// The URL for clients, without logins and without a query.
    pub fn url(&self) -> String {
        self.url_of(self.nodes.iter().map(|node| node.address().to_string()))
    }

    /// The URL for clients behind a proxy before each server. The clients have the same servers as
    /// those without proxies.
    pub fn url_through(&self, proxies: &[Proxy]) -> String {
        let url = self.url_of(proxies.iter().map(|proxy| proxy.address().to_string()));
        with(&url, &self.members())
    }

    /// The parameter that names the servers as clients without proxies name them.
    pub fn members(&self) -> String {
        let all: Vec<_> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("members={}", all.join(","))
    }

    fn url_of(&self, addresses: impl Iterator<Item = String>) -> String {
        let is_encrypted = self.nodes.iter().any(|node| node.certificates().is_some());
        let s = if is_encrypted { "s" } else { "" };
        format!("redlock{s}://{}", addresses.collect::<Vec<_>>().join(","))
    }

    /// Starts one server again with its data on disk. Its locks count at once.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.nodes[node].restart()?;
        initialize(&self.nodes[node])
    }

    /// Lets the locks of each server count at once.
    ///
    /// # Errors
    /// If a server does not answer.
    pub fn initialize(&self) -> Result<()> {
        self.nodes.iter().try_for_each(initialize)
    }
}

/// Lets the locks of one server count at once.
fn initialize(node: &Redis) -> Result<()> {
    let run = node.info("run_id")?;
    node.run(&["SET", "lk:born", &format!("{run} 0")])
}
