//! A Redis, its replicas, and the Sentinels that elect the master.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Redis, RedisBuilder};
use crate::process::{GIVEN_UP, eventually};

/// The Sentinels' name for the servers.
const NAME: &str = "lk";

const SENTINELS: usize = 3;

/// The default intervals of Sentinels are seconds, which is slow for a test.
const PACE: &str = "SENTINEL DEBUG INFO-PERIOD 200 PING-PERIOD 100 ASK-PERIOD 100 ELECTION-TIMEOUT 2000 \
                    MIN-LINK-RECONNECT-PERIOD 500 PUBLISH-PERIOD";

/// The interval in ms at which the Sentinels publish their knowledge: short until they know each
/// other. A failover takes a second, and Sentinels without news of a failover undo it after four
/// times this interval.
const PUBLISH: [&str; 2] = ["100", "1000"];

/// Three Sentinels, a master, and its replicas.
#[derive(Debug)]
pub struct Sentinel {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
}

/// The settings of Sentinels that are not started yet.
#[derive(Clone, Debug)]
pub struct SentinelBuilder {
    replicas: usize,
    down_after: Duration,
    server: RedisBuilder,
    user: Option<String>,
}

impl Sentinel {
    /// Sentinels with one replica, and a failover soon after the master has gone.
    ///
    /// # Errors
    /// As for [`Redis::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The settings of Sentinels that are not started yet.
    pub fn builder() -> SentinelBuilder {
        SentinelBuilder {
            replicas: 1,
            down_after: Duration::from_secs(1),
            server: Redis::builder(),
            user: None,
        }
    }

    /// The Sentinels' name for the master.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let addresses: Vec<_> =
            self.sentinels.iter().map(|sentinel| sentinel.address().to_string()).collect();
        let server = &self.servers[0];
        format!(
            "{}+sentinel://{}{}/{NAME}",
            server.scheme(),
            server.credentials(),
            addresses.join(",")
        )
    }

    /// The servers; the first server was the master at the start.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// One of the servers, for faults.
    pub fn server(&mut self, index: usize) -> &mut Redis {
        &mut self.servers[index]
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// One of the Sentinels, for faults.
    pub fn sentinel(&mut self, index: usize) -> &mut Redis {
        &mut self.sentinels[index]
    }

    /// The server that is the master for most of the Sentinels.
    ///
    /// # Errors
    /// If the Sentinels do not agree.
    pub fn master(&self) -> Result<usize> {
        let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let answers = self
            .sentinels
            .iter()
            .filter_map(|sentinel| sentinel.query::<(String, u16)>(&asked).ok());
        let ports: Vec<_> = answers.map(|(_, port)| port).collect();
        let most = |port: u16| ports.iter().filter(|other| **other == port).count() > SENTINELS / 2;
        self.servers
            .iter()
            .position(|server| most(server.port()))
            .context("the Sentinels do not agree")
    }

    /// Makes the Sentinels elect another master while the old master lives. Returns when all accept
    /// the new master.
    ///
    /// # Errors
    /// If the Sentinels do not elect another master.
    pub fn fail_over(&self) -> Result<usize> {
        let old = self.master()?;
        let mut asked: Option<Instant> = None;
        eventually("there is another master", || {
            // Right after a failover the Sentinels elect no master, and they give up an election
            // that takes long.
            if asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
                let begun = self.sentinels[0].run(&["SENTINEL", "FAILOVER", NAME]);
                asked = begun.is_ok().then(Instant::now);
            }
            Ok(self.other_master(old))
        })
    }

    /// Waits until most of the Sentinels have another master, and the new master knows its role.
    ///
    /// # Errors
    /// If there is no other master within 180 s.
    pub fn wait_for_other_master(&self, old: usize) -> Result<usize> {
        eventually("there is another master", || Ok(self.other_master(old)))
    }

    fn other_master(&self, old: usize) -> Option<usize> {
        let new = self.master().ok()?;
        let is_master = || self.servers[new].info("role").is_ok_and(|role| role == "master");
        (new != old && is_master()).then_some(new)
    }

    /// Waits until all Sentinels know each other, the master and its replicas, and report no
    /// failure.
    ///
    /// # Errors
    /// If the Sentinels do not settle within 180 s.
    pub fn wait_until_settled(&self) -> Result<()> {
        eventually("the Sentinels know everybody", || {
            Ok(self.sentinels.iter().all(|sentinel| self.knows_everybody(sentinel)).then_some(()))
        })
    }

    fn knows_everybody(&self, sentinel: &Redis) -> bool {
        let masters: Vec<Vec<(String, String)>> =
            sentinel.query(&["SENTINEL", "MASTERS"]).unwrap_or_default();
        let replicas: Vec<Vec<(String, String)>> =
            sentinel.query(&["SENTINEL", "REPLICAS", NAME]).unwrap_or_default();
        let field = |of: &[(String, String)], name: &str| {
            of.iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value.clone())
                .unwrap_or_default()
        };
        let is_well = |replica: &Vec<_>| {
            field(replica, "flags") == "slave" && field(replica, "master-link-status") == "ok"
        };
        masters.iter().any(|master| {
            field(master, "flags") == "master"
                && field(master, "num-other-sentinels") == (SENTINELS - 1).to_string()
        }) && replicas.len() == self.servers.len() - 1
            && replicas.iter().all(is_well)
    }
}

impl SentinelBuilder {
    /// The number of replicas. The default is 1.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long a server is silent before it counts as failed. The default is 1 s.
    #[must_use]
    pub fn down_after(mut self, time: Duration) -> Self {
        self.down_after = time;
        self
    }

    /// The settings of each server.
    #[must_use]
    pub fn server(mut self, server: RedisBuilder) -> Self {
        self.server = server;
        self
    }

    /// A user of the Sentinels with rules: `app on >secret +ping`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Starts all servers and Sentinels, and waits until they know each other.
    ///
    /// # Errors
    /// As for [`Redis::start`].
    pub fn start(self) -> Result<Sentinel> {
        let master = self.server.clone().start()?;
        let replica = |_| self.server.clone().replica_of(&master).start();
        let replicas = (0..self.replicas).map(replica).collect::<Result<Vec<_>>>()?;
        let sentinels =
            (0..SENTINELS).map(|_| self.sentinel(&master).start()).collect::<Result<Vec<_>>>()?;
        let sentinel = Sentinel {
            servers: [vec![master], replicas].into_iter().flatten().collect(),
            sentinels,
        };
        let [at_first, later] =
            PUBLISH.map(|period| PACE.split(' ').chain([period]).collect::<Vec<_>>());
        // Before Redis 7, a test cannot change the pace of Sentinels.
        let quickly = sentinel.sentinels.iter().all(|sentinel| sentinel.run(&at_first).is_ok());
        sentinel.wait_until_settled()?;
        if quickly {
            sentinel.sentinels.iter().try_for_each(|sentinel| sentinel.run(&later))?;
        }
        Ok(sentinel)
    }

    fn sentinel(&self, master: &Redis) -> RedisBuilder {
        let quorum = SENTINELS / 2 + 1;
        let mut sentinel = Redis::builder().sentinel();
        sentinel.tls.clone_from(&self.server.tls);
        if let Some(user) = &self.user {
            sentinel = sentinel.config("user", user);
        }
        let mut say =
            |line: &str| sentinel = std::mem::take(&mut sentinel).config("sentinel", line);
        say(&format!("monitor {NAME} 127.0.0.1 {} {quorum}", master.port()));
        say(&format!("down-after-milliseconds {NAME} {}", self.down_after.as_millis()));
        say(&format!("failover-timeout {NAME} 2000"));
        if let Some(password) = &self.server.password {
            say(&format!("auth-pass {NAME} {password}"));
        }
        sentinel
    }
}
