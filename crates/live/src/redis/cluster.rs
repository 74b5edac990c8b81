//! A Redis cluster.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::view::View;
use super::{Redis, RedisBuilder};
use crate::process::{GIVEN_UP, eventually};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

/// How long a node may be silent in ms, until all nodes know each other: the nodes communicate
/// twice in this time.
const AT_FIRST: &str = "1000";

/// The longest time in ms in which a node may move a key to another node.
const MOVE: &str = "5000";

/// Three nodes, which share the slots, and their replicas.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

/// The settings of a cluster that is not started yet.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    replicas: usize,
    node_timeout: Duration,
    node: RedisBuilder,
}

impl Cluster {
    /// A cluster with a replica for each node, and a failover soon after a master has gone.
    ///
    /// # Errors
    /// As for [`Redis::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The settings of a cluster that is not started yet.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder { replicas: 1, node_timeout: Duration::from_secs(1), node: Redis::builder() }
    }

    /// The URL for clients, with all nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!(
            "{}+cluster://{}{}",
            self.nodes[0].scheme(),
            self.nodes[0].credentials(),
            addresses.join(",")
        )
    }

    /// All nodes: at first three masters, and then the replicas of the first, of the second, and of
    /// the third.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// One of the nodes, for faults.
    pub fn node(&mut self, index: usize) -> &mut Redis {
        &mut self.nodes[index]
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// When no node answers.
    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let node = self.up().next().context("no node of the cluster is up")?;
        node.query(&["CLUSTER", "KEYSLOT", key])
    }

    /// The node that serves a slot, according to most of the running nodes.
    ///
    /// # Errors
    /// If the nodes do not agree.
    pub fn owner(&self, slot: u16) -> Result<usize> {
        let views = self.up().map(View::of).collect::<Result<Vec<_>>>()?;
        let believed: Vec<_> = views.iter().filter_map(|view| view.owner(slot)).collect();
        let most =
            |port: u16| believed.iter().filter(|other| **other == port).count() > views.len() / 2;
        self.nodes
            .iter()
            .position(|node| most(node.port()))
            .context("the nodes do not agree whose a slot is")
    }

    /// Makes another node serve a slot, with its keys.
    ///
    /// # Errors
    /// If a node refuses its part.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.owner(slot)?;
        self.begin_move(slot, from, to)?;
        self.move_keys(slot, from, to)?;
        self.end_move(slot, from, to)
    }

    /// Begins the move of a slot. From now on, the old node sends clients to the new node (`ASK`)
    /// for missing keys.
    ///
    /// # Errors
    /// If a node refuses its part.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let ids = [from, to].map(|index| self.nodes[index].query::<String>(&["CLUSTER", "MYID"]));
        let [source, target] = ids;
        let slot = slot.to_string();
        self.nodes[to].run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source?])?;
        self.nodes[from].run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target?])
    }

    /// Moves the keys of a slot to the new node.
    ///
    /// # Errors
    /// If a node refuses its part.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        loop {
            let keys: Vec<String> =
                self.nodes[from].query(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"])?;
            if keys.is_empty() {
                return Ok(());
            }
            self.migrate(&keys, from, to)?;
        }
    }

    /// Moves one key to the new node.
    ///
    /// # Errors
    /// If a node refuses its part, or the old node does not have the key.
    pub fn move_key(&self, key: &str, from: usize, to: usize) -> Result<()> {
        ensure!(self.nodes[from].query::<u32>(&["EXISTS", key])? == 1, "{key} is not there");
        self.migrate(&[key.to_owned()], from, to)
    }

    fn migrate(&self, keys: &[String], from: usize, to: usize) -> Result<()> {
        let (source, port) = (&self.nodes[from], self.nodes[to].port().to_string());
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", MOVE];
        words.extend(source.settings.password.iter().flat_map(|password| ["AUTH", password]));
        words.push("KEYS");
        words.extend(keys.iter().map(String::as_str));
        source.run(&words)
    }

    /// Ends the move of a slot. From now on, the old node sends clients to the new node permanently
    /// (`MOVED`).
    ///
    /// # Errors
    /// If a node refuses its part.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        self.assign(slot, from, to)?;
        self.wait_until_settled()
    }

    /// Makes another node serve a slot, with its keys. The other nodes learn of the move later,
    /// from each other.
    ///
    /// # Errors
    /// If a node refuses its part.
    pub fn move_slot_unsettled(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        self.begin_move(slot, from, to)?;
        self.move_keys(slot, from, to)?;
        self.assign(slot, from, to)
    }

    fn assign(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let target: String = self.nodes[to].query(&["CLUSTER", "MYID"])?;
        // The new node comes first. Otherwise no node would serve the slot in between.
        for index in [to, from] {
            self.nodes[index].run(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &target])?;
        }
        Ok(())
    }

    /// The nodes that are masters now.
    ///
    /// # Errors
    /// When a node that is up does not answer.
    pub fn masters(&self) -> Result<Vec<usize>> {
        let mut masters = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_up()) {
            if node.info("role")? == "master" {
                masters.push(index);
            }
        }
        Ok(masters)
    }

    /// Makes a replica of this node the master in its place, while the node lives. Returns the
    /// replica.
    ///
    /// # Errors
    /// If the node has no replica, or the node and its replica do not change places within 180 s.
    pub fn fail_over(&self, master: usize) -> Result<usize> {
        // A node may not yet be known as a replica if it was a master until a moment ago.
        let replica = eventually("a node has a replica", || {
            let view = View::of(&self.nodes[master])?;
            Ok(self.nodes.iter().position(|node| view.is_replica_of_me(node.port())))
        })?;
        let mut asked: Option<Instant> = None;
        eventually("a replica takes the place of its master", || {
            if asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
                let begun = self.nodes[replica].run(&["CLUSTER", "FAILOVER"]);
                asked = begun.is_ok().then(Instant::now);
            }
            let role = self.nodes[replica].info("role")?;
            Ok((role == "master").then_some(()))
        })?;
        self.wait_until_settled()?;
        Ok(replica)
    }

    /// Waits until another node than `old` serves a slot, and returns that node.
    ///
    /// # Errors
    /// If no other node serves the slot within 180 s.
    pub fn wait_for_other_owner(&self, slot: u16, old: usize) -> Result<usize> {
        eventually("another node serves the slot", || {
            Ok(self.owner(slot).ok().filter(|new| *new != old))
        })
    }

    /// Waits until all running nodes serve, and agree on the owners of the slots.
    ///
    /// # Errors
    /// If the nodes do not agree within 180 s.
    pub fn wait_until_settled(&self) -> Result<()> {
        eventually("the nodes of a cluster agree", || Ok(self.is_settled()?.then_some(())))
    }

    /// Returns whether all running nodes serve, and agree on the owners of the slots.
    ///
    /// # Errors
    /// When a node that is up does not answer.
    pub fn is_settled(&self) -> Result<bool> {
        let serves = |node: &Redis| {
            let info = node.query::<String>(&["CLUSTER", "INFO"]);
            info.is_ok_and(|info| info.contains("cluster_state:ok"))
        };
        if !self.up().all(serves) {
            return Ok(false);
        }
        let views = self.up().map(View::of).collect::<Result<Vec<_>>>()?;
        let agree = views.windows(2).all(|pair| pair[0].shares() == pair[1].shares());
        Ok(agree && !views.is_empty())
    }

    fn up(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_up())
    }

    /// Makes a cluster of nodes that do not know each other.
    fn found(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            // Each node meets each other node directly: news from a third node may take seconds.
            for other in &self.nodes[..index] {
                node.run(&[
                    "CLUSTER",
                    "MEET",
                    "127.0.0.1",
                    &other.port().to_string(),
                    &other.bus().to_string(),
                ])?;
            }
        }
        for (index, node) in self.nodes[..MASTERS].iter().enumerate() {
            let (begin, end) = (index * SLOTS / MASTERS, (index + 1) * SLOTS / MASTERS);
            let slots: Vec<_> = (begin..end).map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
            node.run(&words.collect::<Vec<_>>())?;
        }
        for (index, node) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master: String = self.nodes[index % MASTERS].query(&["CLUSTER", "MYID"])?;
            eventually("a replica hears of its master", || {
                Ok(node.run(&["CLUSTER", "REPLICATE", &master]).is_ok().then_some(()))
            })?;
        }
        for node in &self.nodes[MASTERS..] {
            node.wait_until_synchronized()?;
        }
        self.wait_until_all_know_all()
    }

    fn wait_until_all_know_all(&self) -> Result<()> {
        eventually("all nodes of a cluster know all", || {
            let views = self.nodes.iter().map(View::of).collect::<Result<Vec<_>>>()?;
            let replicas = self.nodes.len() - MASTERS;
            Ok(views.iter().all(|view| view.is_whole(MASTERS, replicas)).then_some(()))
        })?;
        self.wait_until_settled()
    }
}

impl ClusterBuilder {
    /// The number of replicas of each of the three masters. The default is 1.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long a node is silent before it counts as failed. The default is 1 s.
    #[must_use]
    pub fn node_timeout(mut self, time: Duration) -> Self {
        self.node_timeout = time;
        self
    }

    /// The settings of each node.
    #[must_use]
    pub fn node(mut self, node: RedisBuilder) -> Self {
        self.node = node;
        self
    }

    /// Starts all nodes, and waits until they serve and agree.
    ///
    /// # Errors
    /// As for [`Redis::start`].
    pub fn start(self) -> Result<Cluster> {
        let node = self.node.cluster_node().config("cluster-node-timeout", AT_FIRST);
        let nodes = (0..MASTERS * (1 + self.replicas))
            .map(|_| node.clone().start())
            .collect::<Result<Vec<_>>>()?;
        let cluster = Cluster { nodes };
        cluster.found()?;
        let timeout = self.node_timeout.as_millis().to_string();
        cluster.nodes.iter().try_for_each(|node| node.set("cluster-node-timeout", &timeout))?;
        Ok(cluster)
    }
}
