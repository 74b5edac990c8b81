//! What a Redis store is opened with: the parts of its URL, or the calls of its builder.

use std::fmt;
use std::time::Duration;

use crate::checks::Check;
use crate::net::{Endpoint, TlsSettings};
use crate::route;
use crate::url::{StoreUrl, UrlSyntax};
use crate::wire::{Settings, Trial};
use crate::{Error, Result, Secret};
use lockkeeper_core::kit::{Hosts, Limits, wrong_param};

/// The time in which a connection has to be made, if the timeout of an answer is not longer.
const CONNECT_MIN: Duration = Duration::from_secs(3);
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// The limits of the parameter `timeout=`.
pub const TIMEOUT: Limits = Limits {
    least: Duration::from_millis(50),
    most: Duration::from_secs(24 * 3600),
    remedy: "timeout=3s; at least 50ms, and at most 24h",
};

/// The servers, the login of this client, and the settings of the store.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which servers have the keys.
    pub topology: Deployment,
    /// The addresses, the login, TLS and the time limit.
    pub hosts: Hosts,
    /// The user at the Sentinels.
    pub sentinel_user: Option<String>,
    /// The password at the Sentinels; that of the servers by default.
    pub sentinel_password: Option<Secret>,
    /// The number of the database.
    pub db: u32,
    /// How many replicas must have a grant before it counts.
    pub min_replicas: u32,
    /// RESP2 instead of RESP3.
    pub resp2: bool,
    /// The checks that the caller waives.
    pub waived: Vec<Check>,
}

/// Which servers have the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Standalone,
    /// The master that Sentinels know by this name.
    Sentinel(String),
    /// The nodes of a Cluster, each with some of the slots.
    Cluster,
}

impl Setup {
    /// The defaults for these servers, each `HOST` or `HOST:PORT`.
    pub fn new<H: AsRef<str>>(topology: Deployment, hosts: impl IntoIterator<Item = H>) -> Self {
        Self::on(topology, Hosts::new(hosts, "a Redis store without a host"))
    }

    /// The defaults for these hosts.
    pub fn on(topology: Deployment, hosts: Hosts) -> Self {
        Self {
            topology,
            hosts,
            sentinel_user: None,
            sentinel_password: None,
            db: 0,
            min_replicas: 0,
            resp2: false,
            waived: Vec::new(),
        }
    }

    /// The setup in a URL of `redis:`, `redis+sentinel:` or `redis+cluster:`. `urls` are the URLs
    /// of the store. Parameters that only the store knows are left to the store.
    ///
    /// # Errors
    /// `Invalid` for another scheme, or parts that do not fit together.
    pub fn from_url(url: &StoreUrl, urls: &UrlSyntax) -> Result<Self> {
        let (tls, kind) = match url.scheme.split_once('+') {
            None => (url.scheme == "rediss", ""),
            Some((scheme, kind)) => (scheme == "rediss", kind),
        };
        let (topology, db) = match kind {
            "sentinel" => {
                let (master, db) = master_of(url)?;
                (Deployment::Sentinel(master), db)
            }
            "cluster" => (Deployment::Cluster, cluster_path(url)?),
            _ if url.scheme == "redis" || url.scheme == "rediss" => {
                (Deployment::Standalone, database(url, url.path.trim_start_matches('/'))?)
            }
            _ => {
                return Err(Error::invalid(format!("{url} is not the URL of a Redis"))
                    .with_remedy("redis://HOST"));
            }
        };
        if topology == Deployment::Standalone && url.hosts.len() > 1 {
            return Err(Error::invalid(format!("{url} has more than one host"))
                .with_remedy("redis+sentinel:// or redis+cluster://, or one host"));
        }
        let mut setup = Self::on(topology, Hosts::from_url(url, urls, tls)?);
        setup.db = db;
        setup.waived =
            url.common.unsafe_checks.iter().filter_map(|name| Check::from_name(name)).collect();
        setup.params(url)
    }

    fn params(mut self, url: &StoreUrl) -> Result<Self> {
        let wrong = |key: &str, remedy: &str| Err(wrong_param(url, key, remedy));
        for (key, value) in &url.params {
            match key.as_str() {
                "min-replicas" => match value.parse() {
                    Ok(replicas) => self.min_replicas = replicas,
                    Err(_) => return wrong(key, "min-replicas=1"),
                },
                "timeout" => self.hosts.timeout = TIMEOUT.read(url, key, value)?,
                "resp" => match value.as_str() {
                    "2" => self.resp2 = true,
                    "3" => self.resp2 = false,
                    _ => {
                        return wrong(
                            key,
                            "resp=3, or resp=2 for what stands before the server and knows no other",
                        );
                    }
                },
                "sentinel-user" => self.sentinel_user = Some(value.clone()),
                "sentinel-password" => self.sentinel_password = Some(Secret::new(value.as_str())),
                _ => {}
            }
        }
        Ok(self)
    }

    /// The addresses with their ports.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, u16)> {
        let port =
            if matches!(self.topology, Deployment::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        self.hosts.addresses(port)
    }
}

impl Setup {
    /// The servers of the store, and how they are found.
    ///
    /// # Errors
    /// `Invalid` without an address.
    pub fn servers(&self) -> Result<route::Topology> {
        let mut endpoints: Vec<_> =
            self.addresses().map(|(host, port)| Endpoint { host: host.to_owned(), port }).collect();
        Ok(match &self.topology {
            Deployment::Standalone => match endpoints.pop() {
                Some(endpoint) => route::Topology::Standalone(endpoint),
                None => {
                    return Err(Error::invalid("a Redis store without a host")
                        .with_remedy("HOST or HOST:PORT"));
                }
            },
            Deployment::Sentinel(master) => route::Topology::Sentinel {
                sentinels: endpoints,
                master: master.clone(),
                user: self.sentinel_user.clone(),
                password: self.sentinel_password.clone().or_else(|| self.hosts.password.clone()),
            },
            Deployment::Cluster => route::Topology::Cluster(endpoints),
        })
    }

    /// The settings of each connection, which tries these requests before it is used.
    ///
    /// # Errors
    /// `Invalid` for a file of TLS that cannot be used.
    pub fn settings(&self, trials: Vec<Trial>) -> Result<Settings> {
        Ok(Settings {
            user: self.hosts.user.clone(),
            password: self.hosts.password.clone(),
            db: self.db,
            tls: self.hosts.tls.as_ref().map(TlsSettings::load).transpose()?,
            resp2: self.resp2,
            stays_master: self.topology == Deployment::Standalone
                && !self.waived.contains(&Check::Replica),
            asks_history: self.min_replicas > 0,
            never_forgets: !self.waived.contains(&Check::Eviction),
            trials,
            timeout: self.hosts.timeout,
            connect_timeout: self.hosts.timeout.max(CONNECT_MIN),
            ..Settings::default()
        })
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.hosts.tls.is_some() { "s" } else { "" };
        let (kind, port) = match &self.topology {
            Deployment::Standalone => ("", PORT),
            Deployment::Sentinel(_) => ("+sentinel", SENTINEL_PORT),
            Deployment::Cluster => ("+cluster", PORT),
        };
        write!(f, "redis{s}{kind}://{}", self.hosts.shown(port))?;
        if let Deployment::Sentinel(master) = &self.topology {
            write!(f, "/{master}")?;
        }
        match self.db {
            0 => Ok(()),
            db => write!(f, "/{db}"),
        }
    }
}

fn master_of(url: &StoreUrl) -> Result<(String, u32)> {
    let path = url.path.trim_start_matches('/');
    let (master, db) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(Error::invalid(format!("{url} does not name the master"))
            .with_remedy("redis+sentinel://HOST/MASTER"));
    }
    Ok((master.to_owned(), database(url, db)?))
}

fn cluster_path(url: &StoreUrl) -> Result<u32> {
    match url.path.trim_matches('/') {
        "" | "0" => Ok(0),
        _ => Err(Error::invalid(format!("{url}: a Cluster has no database but 0"))
            .with_remedy("the URL without its path")),
    }
}

fn database(url: &StoreUrl, text: &str) -> Result<u32> {
    match text.trim_end_matches('/') {
        "" => Ok(0),
        number => number.parse().map_err(|_| {
            Error::invalid(format!("{url}: the path is not the number of a database"))
                .with_remedy("redis://HOST/0")
        }),
    }
}
