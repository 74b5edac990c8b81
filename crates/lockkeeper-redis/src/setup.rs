//! What a Redis store is opened with: the parts of its URL, or the calls of its builder.

use std::fmt;
use std::time::Duration;

use super::checks::Check;
use crate::url::{Param, Scheme, StoreUrl, UrlForm, UrlSyntax};
use crate::{Error, Result, Secret};
use lockkeeper_core::kit::{Hosts, Limits, wrong_param};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
pub(super) const TIMEOUT: Limits = Limits {
    least: Duration::from_millis(50),
    most: Duration::from_secs(24 * 3600),
    remedy: "timeout=3s; at least 50ms, and at most 24h",
};

/// What the URLs of a Redis look like.
pub(super) static URLS: UrlSyntax = UrlSyntax::new(&[
    Scheme::new("redis", UrlForm::Hosts, "redis://HOST[:PORT][/DB]").tls("rediss"),
    Scheme::new("redis+sentinel", UrlForm::Hosts, "redis+sentinel://HOST,HOST,HOST/MASTER")
        .tls("rediss+sentinel"),
    Scheme::new("redis+cluster", UrlForm::Hosts, "redis+cluster://HOST,HOST,HOST")
        .tls("rediss+cluster"),
])
.params(&[
    Param::new("sentinel-user", "the user of the Sentinels; none by default").only("+sentinel"),
    Param::new("sentinel-password", "the password of the Sentinels; none by default")
        .only("+sentinel"),
    Param::new("layout", "the layout of the keys: `native`"),
    Param::new(
        "min-replicas",
        "how many replicas must have a grant before it counts; 0 by default",
    ),
    Hosts::TIMEOUT,
    Param::new(
        "resp",
        "the version of the protocol, 3 by default; 2 for a proxy that knows no other",
    ),
    Hosts::CA,
    Hosts::CERT,
    Hosts::KEY,
    Hosts::SERVER_NAME,
])
.checks(&["eviction", "replica", "version", "rights"]);

/// The servers, the login of this client, and the settings of the store.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) topology: Topology,
    pub(super) hosts: Hosts,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<Secret>,
    pub(super) db: u32,
    pub(super) min_replicas: u32,
    pub(super) resp2: bool,
    pub(super) waived: Vec<Check>,
}

/// Which servers have the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// One server.
    Standalone,
    /// The master that Sentinels know by this name.
    Sentinel(String),
    /// The nodes of a Cluster, each with some of the slots.
    Cluster,
}

impl Setup {
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
        let mut setup = Self::on(topology, Hosts::from_url(url, &URLS, tls)?);
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
                "layout" if value != "native" => return wrong(key, "layout=native"),
                "sentinel-user" => self.sentinel_user = Some(value.clone()),
                "sentinel-password" => self.sentinel_password = Some(Secret::new(value.as_str())),
                _ => {}
            }
        }
        Ok(self)
    }

    /// The addresses with their ports.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, u16)> {
        let port =
            if matches!(self.topology, Topology::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        self.hosts.addresses(port)
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for Setup {
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

    fn read(url: &str) -> Result<Setup> {
        Setup::from_url(&url.parse()?)
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
}
