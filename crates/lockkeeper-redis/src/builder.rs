//! Opening a Redis store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Check, RedisStore};
use crate::store::Store;
use crate::url::StoreUrl;
use crate::{Error, Open, Result, Secret, Tls};
use lockkeeper_core::kit::{Hosts, Limits, wrong_param};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const TIMEOUT: Limits = Limits {
    least: Duration::from_millis(50),
    most: Duration::from_secs(24 * 3600),
    remedy: "timeout=3s; at least 50ms, and at most 24h",
};

/// The options for a [`RedisStore`]. A keeper takes the builder unopened too: see [`Open`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct RedisStoreBuilder {
    pub(super) topology: Topology,
    pub(super) hosts: Hosts,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<Secret>,
    pub(super) db: u32,
    pub(super) min_replicas: u32,
    pub(super) resp2: bool,
    pub(super) waived: Vec<Check>,
}

/// Who has the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// One server.
    Standalone,
    /// The master that Sentinels know by this name.
    Sentinel(String),
    /// The nodes of a Cluster, each some of the slots.
    Cluster,
}

impl RedisStoreBuilder {
    pub(super) fn new<H: AsRef<str>>(
        topology: Topology,
        hosts: impl IntoIterator<Item = H>,
    ) -> Self {
        Self::on(topology, Hosts::new(hosts, "a Redis store without a host"))
    }

    fn on(topology: Topology, hosts: Hosts) -> Self {
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

    pub(super) fn from_url(url: &StoreUrl) -> Result<Self> {
        let (tls, kind) = match url.scheme.split_once('+') {
            None => (url.scheme == "rediss", ""),
            Some((scheme, kind)) => (scheme == "rediss", kind),
        };
        let (topology, db) = match kind {
            "sentinel" => {
                let (master, db) = master_of(url)?;
                (Topology::Sentinel(master), db)
            }
            "cluster" => (Topology::Cluster, cluster_path(url)?),
            _ if url.scheme == "redis" || url.scheme == "rediss" => {
                (Topology::Standalone, database(url, url.path.trim_start_matches('/'))?)
            }
            _ => {
                return Err(Error::invalid(format!("{url} is not the URL of a Redis"))
                    .with_remedy("redis://HOST"));
            }
        };
        if topology == Topology::Standalone && url.hosts.len() > 1 {
            return Err(Error::invalid(format!("{url} has more than one host"))
                .with_remedy("redis+sentinel:// or redis+cluster://, or one host"));
        }
        let mut builder = Self::on(topology, Hosts::from_url(url, tls)?);
        builder.db = db;
        builder.waived =
            url.common.unsafe_checks.iter().filter_map(|name| Check::from_name(name)).collect();
        builder.params(url)
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
                "layout" if value != "native" => return wrong(key, "layout=native"),
                "sentinel-user" => self.sentinel_user = Some(value.clone()),
                "sentinel-password" => self.sentinel_password = Some(Secret::new(value.as_str())),
                _ => {}
            }
        }
        Ok(self)
    }

    /// Logs in as this user of the server's access list; the default user by default. If no
    /// password is set, the user logs in with the empty password.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.hosts.user = Some(user.into());
        self
    }

    /// Logs in with this password, at Sentinels too, unless
    /// [`sentinel_login`](Self::sentinel_login) sets another login.
    pub fn password(mut self, password: Secret) -> Self {
        self.hosts.password = Some(password);
        self
    }

    /// Logs in to the Sentinels as this user, with this password.
    pub fn sentinel_login(mut self, user: Option<&str>, password: Option<Secret>) -> Self {
        self.sentinel_user = user.map(str::to_owned);
        self.sentinel_password = password;
        self
    }

    /// Encrypts all connections.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.hosts.tls = Some(tls);
        self
    }

    /// Sets the number of the database; 0 by default. A Cluster has only database 0.
    pub fn db(mut self, db: u32) -> Self {
        self.db = db;
        self
    }

    /// Sets how many replicas must acknowledge a grant before the store hands out the lock, and a
    /// renewal before it counts; 0 by default. This shortens the time in which a failover loses a
    /// held lock. It does not remove it: the replica that takes over need not be one of those that
    /// have acknowledged.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.min_replicas = replicas;
        self
    }

    /// Sets how long a request may stay without an answer before the connection counts as broken; 3
    /// s by default, at least 50 ms and at most 24 h.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.hosts.timeout = TIMEOUT.nearest(timeout);
        self
    }

    /// Speaks RESP2, with a second connection for the messages that the server pushes. By default
    /// RESP3 is tried first.
    pub fn resp2(mut self) -> Self {
        self.resp2 = true;
        self
    }

    /// Waives this check: the store connects although it fails.
    pub fn allow(mut self, check: Check) -> Self {
        self.waived.push(check);
        self
    }

    /// Connects, and checks whether locks can be relied on there.
    ///
    /// # Errors
    /// - `Unavailable`: no server answers, or no Sentinel knows the master.
    /// - `Denied`: the wrong password, or too few rights.
    /// - `Unsupported`: a [`Check`] fails.
    /// - `Invalid`: an address or a file that cannot be used.
    ///
    /// # Cancel safety
    /// The future may be dropped. Its connection is closed then.
    pub async fn connect(self) -> Result<RedisStore> {
        self.hosts.check()?;
        RedisStore::open(self).await
    }
}

#[async_trait]
impl Open<dyn Store> for RedisStoreBuilder {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.connect().await?))
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.hosts.tls.is_some() { "s" } else { "" };
        let (kind, port) = match &self.topology {
            Topology::Standalone => ("", PORT),
            Topology::Sentinel(_) => ("+sentinel", SENTINEL_PORT),
            Topology::Cluster => ("+cluster", PORT),
        };
        write!(f, "redis{s}{kind}://{}", self.hosts.shown(port))?;
        if let Topology::Sentinel(master) = &self.topology {
            write!(f, "/{master}")?;
        }
        match self.db {
            0 => Ok(()),
            db => write!(f, "/{db}"),
        }
    }
}

impl RedisStoreBuilder {
    /// The addresses with their ports.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, u16)> {
        let port =
            if matches!(self.topology, Topology::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        self.hosts.addresses(port)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<RedisStoreBuilder> {
        RedisStoreBuilder::from_url(&url.parse()?)
    }

    #[test]
    fn a_url_says_everything() {
        let built =
            read("rediss+sentinel://app:pw@a,b:7/m/3?min-replicas=1&timeout=500ms&resp=2&sentinel-user=s&ca=/c")
                .unwrap();
        assert_eq!(built.topology, Topology::Sentinel("m".into()));
        assert_eq!(built.addresses().collect::<Vec<_>>(), [("a", 26379), ("b", 7)]);
        assert_eq!(
            (built.db, built.min_replicas, built.hosts.timeout),
            (3, 1, Duration::from_millis(500))
        );
        assert_eq!(
            (built.hosts.user.as_deref(), built.sentinel_user.as_deref(), built.resp2),
            (Some("app"), Some("s"), true)
        );
        assert!(built.hosts.tls.as_ref().is_some_and(|tls| tls.ca.is_some()));
        assert_eq!(built.to_string(), "rediss+sentinel://a:26379,b:7/m/3");
    }

    #[test]
    fn an_address_is_enough() {
        assert_eq!(read("redis://h").unwrap().to_string(), "redis://h:6379");
        assert_eq!(RedisStore::standalone("h").to_string(), "redis://h:6379");
        assert_eq!(
            RedisStore::cluster(["[::1]:7", "h"]).to_string(),
            "redis+cluster://[::1]:7,h:6379"
        );
        assert_eq!(
            RedisStore::sentinel(["h"], "m").db(2).to_string(),
            "redis+sentinel://h:26379/m/2"
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy() {
        for (url, remedy) in [
            ("redis://a,b", "redis+sentinel:// or redis+cluster://, or one host"),
            ("redis://a/x", "redis://HOST/0"),
            ("redis+sentinel://a", "redis+sentinel://HOST/MASTER"),
            ("redis+cluster://a/1", "the URL without its path"),
            ("redis://a?min-replicas=x", "min-replicas=1"),
            ("redis://a?timeout=1ms", "timeout=3s; at least 50ms, and at most 24h"),
            ("redis://a?timeout=25h", "timeout=3s; at least 50ms, and at most 24h"),
            (
                "redis://a?resp=4",
                "resp=3, or resp=2 for what stands before the server and knows no other",
            ),
            ("redis://a?layout=plain", "layout=native"),
            ("redis://a?unsafe=evicton", "unsafe=eviction"),
        ] {
            assert_eq!(read(url).unwrap_err().remedy(), Some(remedy), "{url}");
        }
    }

    #[test]
    fn settings_for_tls_alone_are_refused_with_the_right_scheme() {
        for (scheme, url) in [
            ("redis", "redis://a?ca=/x"),
            ("redis+sentinel", "redis+sentinel://a/m?server-name=n"),
            ("redis+cluster", "redis+cluster://a?cert=/c&key=/k"),
        ] {
            let error = read(url).unwrap_err();
            assert!(
                error.message().ends_with(&format!("= needs TLS, and {scheme}:// has none")),
                "{error}"
            );
            let secure = format!("{}://", scheme.replace("redis", "rediss"));
            assert_eq!(error.remedy(), Some(&*secure), "{error}");
        }
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_read_learns_when_it_is_used() {
        let error = RedisStore::standalone("a:b:c").connect().await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid);
        assert!(RedisStore::cluster(Vec::<String>::new()).connect().await.is_err());
    }

    #[test]
    fn no_timeout_is_too_long_to_be_counted() {
        let store = RedisStore::standalone("h").timeout(Duration::MAX);
        assert_eq!(store.hosts.timeout, TIMEOUT.most);
        assert_eq!(
            RedisStore::standalone("h").timeout(Duration::ZERO).hosts.timeout,
            TIMEOUT.least
        );
    }
}
