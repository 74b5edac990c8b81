//! The settings of a Redis server.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Redis;
use crate::certificates::Certificates;
use crate::clock::Kind;

/// The settings of a Redis server that is not started yet.
#[derive(Clone, Debug, Default)]
pub struct RedisBuilder {
    pub(super) clock: Option<Kind>,
    pub(super) password: Option<String>,
    pub(super) tls: Option<Certificates>,
    asks_clients: bool,
    sentinel: bool,
    cluster: bool,
    pub(super) valkey: bool,
    master: Option<u16>,
    users: Vec<String>,
    lines: Vec<String>,
}

impl RedisBuilder {
    /// A line of `redis.conf`. The line comes after the lines of the builder, so it has precedence.
    #[must_use]
    pub fn config(mut self, parameter: &str, value: &str) -> Self {
        self.lines.push(format!("{parameter} {value}"));
        self
    }

    /// Writes all data to the disk before the server acknowledges them.
    #[must_use]
    pub fn persistent(self) -> Self {
        self.config("appendonly", "yes").config("appendfsync", "always")
    }

    /// The password of the default user, for clients, masters and tests.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// A user with rules: `on >secret ~lk:* &lk:* +eval`.
    #[must_use]
    pub fn user(mut self, name: &str, rules: &str) -> Self {
        // Before Redis 7, a user may listen to every channel that no rule forbids.
        self.users.push(format!("user {name} resetchannels {rules}"));
        self
    }

    /// Encrypts the only port.
    #[must_use]
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// Encrypts the only port, and demands a certificate of each client.
    #[must_use]
    pub fn mutual_tls(mut self, certificates: Certificates) -> Self {
        self.asks_clients = true;
        self.tls(certificates)
    }

    /// Makes the server a replica of another server.
    #[must_use]
    pub fn replica_of(mut self, master: &Redis) -> Self {
        self.master = Some(master.port());
        self
    }

    /// Gives the server a clock that [`Redis::set_clock_offset`] moves. By default the server has
    /// the clock of the machine.
    #[must_use]
    pub fn with_clock(mut self) -> Self {
        self.clock = Some(Kind::Going);
        self
    }

    /// Gives the server a clock that goes on only when [`Redis::standing_clock`] moves it.
    #[must_use]
    pub fn with_standing_clock(mut self) -> Self {
        self.clock = Some(Kind::Standing);
        self
    }

    /// Makes the server a node of a cluster, without knowledge of other nodes.
    pub(super) fn cluster_node(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Starts the Valkey that `cargo xtask test --all` installs.
    #[must_use]
    pub fn valkey(mut self) -> Self {
        self.valkey = true;
        self
    }

    /// Starts a Sentinel instead of a server.
    #[must_use]
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts the server, and waits until it answers. A replica also waits until it has the data of
    /// its master.
    ///
    /// # Errors
    /// If Redis is not installed, with the command that installs it; if Redis does not start, with
    /// its output.
    pub fn start(self) -> Result<Redis> {
        let redis = Redis::launch(&self)?;
        if self.master.is_some() {
            redis.wait_until_synchronized()?;
        }
        Ok(redis)
    }

    pub(super) fn arguments(&self) -> &'static [&'static str] {
        if self.sentinel { &["--sentinel"] } else { &[] }
    }

    /// Writes the configuration of the server.
    pub(super) fn write(&self, folder: &Path, port: u16) -> Result<()> {
        fs::create_dir(folder.join("data")).context("no folder for data")?;
        fs::write(folder.join("users.acl"), self.users()).context("cannot write users.acl")?;
        fs::write(folder.join("redis.conf"), self.text(folder, port))
            .context("cannot write redis.conf")
    }

    fn users(&self) -> String {
        let password = self
            .password
            .as_ref()
            .map_or_else(|| "nopass".to_owned(), |password| format!(">{password}"));
        let default = format!("user default on {password} ~* &* +@all\n");
        self.users.iter().fold(default, |text, user| text + user + "\n")
    }

    fn text(&self, folder: &Path, port: u16) -> String {
        let folder = folder.display();
        let mut text = format!("bind 127.0.0.1\nunixsocket {folder}/socket\ndir {folder}/data\n");
        text += &self
            .tls
            .as_ref()
            .map_or_else(|| format!("port {port}\n"), |tls| self.tls_text(tls, port));
        if !self.sentinel {
            text += "save \"\"\nrepl-diskless-sync-delay 0\n";
            let _ = writeln!(text, "aclfile {folder}/users.acl");
        }
        if self.cluster {
            text += "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\n";
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "masterauth {password}");
        }
        if let Some(master) = self.master {
            let _ = writeln!(text, "replicaof 127.0.0.1 {master}");
        }
        self.lines.iter().fold(text, |text, line| text + line + "\n")
    }

    fn tls_text(&self, tls: &Certificates, port: u16) -> String {
        let files = [
            ("tls-cert-file", tls.server()),
            ("tls-key-file", tls.server_key()),
            ("tls-ca-cert-file", tls.authority()),
        ];
        let asks = if self.asks_clients { "yes" } else { "no" };
        // The traffic between servers is encrypted too.
        let text = format!(
            "port 0\ntls-port {port}\ntls-auth-clients {asks}\ntls-replication yes\ntls-cluster yes\n"
        );
        files
            .iter()
            .fold(text, |text, (parameter, file)| format!("{text}{parameter} {}\n", file.display()))
    }
}
