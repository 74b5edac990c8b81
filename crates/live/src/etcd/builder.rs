//! The settings of an etcd.

use std::time::Duration;

use anyhow::Result;

use super::Etcd;
use crate::certificates::Certificates;

/// A user, and the keys that the user may read and write.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    /// The prefix of the user's keys.
    pub(super) prefix: String,
}

/// The version of etcd.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Which {
    #[default]
    Current,
    Oldest,
    Debian,
}

/// The settings of an etcd that is not started yet.
#[derive(Clone, Debug)]
pub struct EtcdBuilder {
    pub(super) which: Which,
    pub(super) members: usize,
    pub(super) tls: Option<Certificates>,
    pub(super) users: Vec<User>,
    asks_clients: bool,
    waits_for_disk: bool,
    election_timeout: Duration,
    options: Vec<String>,
}

impl Default for EtcdBuilder {
    fn default() -> Self {
        Self {
            which: Which::default(),
            members: 1,
            tls: None,
            users: Vec::new(),
            asks_clients: false,
            waits_for_disk: false,
            election_timeout: Duration::from_millis(500),
            options: Vec::new(),
        }
    }
}

impl EtcdBuilder {
    /// Uses the version of Debian in place of the current version.
    #[must_use]
    pub fn debian(mut self) -> Self {
        self.which = Which::Debian;
        self
    }

    /// Uses the oldest version that lockkeeper accepts, in place of the current version.
    #[must_use]
    pub fn oldest(mut self) -> Self {
        self.which = Which::Oldest;
        self
    }

    /// The number of members. The default is 1.
    #[must_use]
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// How long the other members wait for a leader. The default is 500 ms. The leader sends ten
    /// heartbeats in that time. No lease is shorter than one and a half times that, in whole
    /// seconds: 1 s, or 2 s if the time-out is 1 s.
    #[must_use]
    pub fn election_timeout(mut self, timeout: Duration) -> Self {
        self.election_timeout = timeout;
        self
    }

    /// Makes the members wait for the disk, as a member has to that must survive a power cut. By
    /// default the members do not wait, which is quick. A `kill -9` loses nothing even then, since
    /// the system has all written data.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.waits_for_disk = true;
        self
    }

    /// Encrypts the port for clients.
    #[must_use]
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// Encrypts the port for clients, and demands a certificate of each client.
    #[must_use]
    pub fn mutual_tls(mut self, certificates: Certificates) -> Self {
        self.asks_clients = true;
        self.tls(certificates)
    }

    /// Makes clients log in. This user may read and write everything. The first user is the user of
    /// [`Etcd::url`].
    #[must_use]
    pub fn login(self, name: &str, password: &str) -> Self {
        self.user(name, password, "")
    }

    /// Makes clients log in. This user may read and write the keys with this prefix.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, prefix: &str) -> Self {
        let (name, password, prefix) = (name.to_owned(), password.to_owned(), prefix.to_owned());
        self.users.push(User { name, password, prefix });
        self
    }

    /// The maximum size of the data in bytes.
    #[must_use]
    pub fn quota(self, bytes: u64) -> Self {
        self.option("quota-backend-bytes", &bytes.to_string())
    }

    /// An option of etcd's command line. The option comes after the options of the builder, so it
    /// has precedence.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push(format!("--{name}={value}"));
        self
    }

    /// Starts the members, and waits until each member answers.
    ///
    /// # Errors
    /// If etcd is not installed, with the command that installs it; if etcd does not start, with
    /// its output.
    pub fn start(self) -> Result<Etcd> {
        Etcd::launch(&self)
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The arguments that all members share.
    pub(super) fn arguments(&self) -> Vec<String> {
        let timeout = self.election_timeout.as_millis();
        let mut arguments = vec![
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
            "--bcrypt-cost=4".to_owned(),
            format!("--heartbeat-interval={}", timeout / 10),
            format!("--election-timeout={timeout}"),
        ];
        if !self.waits_for_disk {
            arguments.push("--unsafe-no-fsync=true".to_owned());
        }
        if let Some(tls) = &self.tls {
            arguments.push(format!("--cert-file={}", tls.server().display()));
            arguments.push(format!("--key-file={}", tls.server_key().display()));
        }
        // This option alone makes etcd ask clients for a certificate.
        if let Some(tls) = self.tls.as_ref().filter(|_| self.asks_clients) {
            arguments.push(format!("--trusted-ca-file={}", tls.authority().display()));
            arguments.push("--client-cert-auth=true".to_owned());
        }
        arguments.extend_from_slice(&self.options);
        arguments
    }
}
