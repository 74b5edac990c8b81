//! What a Redlock store is opened with: the parts of its URL, or the calls of its builder.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::duration::format_duration;
use lockkeeper_core::kit::net::TlsSettings;
use lockkeeper_core::kit::{Hosts, Limits, wrong_param};
use lockkeeper_core::url::{Param, Scheme, StoreUrl, UrlForm, UrlSyntax};
use lockkeeper_core::{Error, Result, Secret};
use lockkeeper_redis_client::checks::Check;
use lockkeeper_redis_client::setup::TIMEOUT;
use lockkeeper_redis_client::wire::{Endpoint, Settings};

use crate::rights;

const PORT: u16 = 6379;
pub(crate) const NO_MEMBER: &str = "members= without a server";
/// A majority of two nodes is both: such a store is less available than one server.
const NODES_MIN: usize = 3;
/// The time in which a connection has to be made, if the time-out of an answer is not longer.
const CONNECT_MIN: Duration = Duration::from_secs(3);
/// How long a node may keep a claim, unless the URL says otherwise.
pub(crate) const MAX_KEEP: Duration = Duration::from_secs(60);
/// The time-out of a node in an attempt, for short ttls.
const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(50);
/// An attempt with this many time-outs of a node leaves a part of the ttl: two rounds, and a
/// withdrawal.
const TIMEOUTS: u32 = 4;

/// The part of the caller's time that the opening uses.
const OPENING: f64 = 0.9;

const KEEP: Limits = Limits {
    least: Duration::from_secs(1),
    most: Duration::from_secs(24 * 3600),
    remedy: "max-keep=60s; at least 1s, and at most 24h",
};
const NODE_TIMEOUT: Limits = Limits {
    least: Duration::from_millis(1),
    most: Duration::from_secs(60),
    remedy: "node-timeout=50ms; at least 1ms, and at most 60s",
};

/// What the URLs of a Redlock look like.
pub(crate) static URLS: UrlSyntax = UrlSyntax::new(&[Scheme::new(
    "redlock",
    UrlForm::Hosts,
    "redlock://HOST[:PORT],HOST,HOST[/DB]",
)
.tls("redlocks")])
.params(&[
    Param::new(
        "max-keep",
        "the longest ttl and lock-delay together, and how long a restarted server does not count; \
         60s by default",
    ),
    Param::new(
        "node-timeout",
        "how long an attempt waits for one server; by default 50ms, or a 200th of a longer ttl",
    ),
    Param::new(
        "members",
        "the servers as the other clients name them, in the order of the hosts, if these are other \
         names of them",
    ),
    Param::new("users", "the users of the servers, in the order of the hosts, if they differ"),
    Param::new(
        "passwords",
        "the passwords of the servers, in the order of the hosts, if they differ",
    ),
    Hosts::TIMEOUT,
    Hosts::CA,
    Hosts::CERT,
    Hosts::KEY,
    Hosts::SERVER_NAME,
])
.checks(&["eviction", "replica", "version", "rights"]);

/// The servers, the logins of this client, and the settings of the store.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) hosts: Hosts,
    /// The logins of the servers, in the order of the hosts; empty if all have the same.
    pub(crate) logins: Vec<(Option<String>, Option<Secret>)>,
    pub(crate) db: u32,
    /// The servers as the other clients name them, if they name them otherwise.
    pub(crate) members: Option<Hosts>,
    pub(crate) max_keep: Duration,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) assumes_fresh: bool,
    pub(crate) waived: Vec<Check>,
    /// How long the caller waits for the opening, if it limits this wait.
    pub(crate) open_within: Option<Duration>,
}

impl Setup {
    pub(crate) fn new<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Self {
        Self::on(Hosts::new(hosts, "a Redlock without a host"))
    }

    fn on(hosts: Hosts) -> Self {
        Self {
            hosts,
            logins: Vec::new(),
            db: 0,
            members: None,
            max_keep: MAX_KEEP,
            node_timeout: None,
            assumes_fresh: false,
            waived: Vec::new(),
            open_within: None,
        }
    }

    pub(crate) fn from_url(url: &StoreUrl) -> Result<Self> {
        if url.scheme != "redlock" && url.scheme != "redlocks" {
            return Err(Error::invalid(format!("{url} is not the URL of a Redlock"))
                .with_remedy("redlock://HOST,HOST,HOST"));
        }
        let mut setup = Self::on(Hosts::from_url(url, &URLS, url.scheme == "redlocks")?);
        setup.db = database(url)?;
        setup.waived =
            url.common.unsafe_checks.iter().filter_map(|name| Check::from_name(name)).collect();
        setup.open_within = url.common.open_within;
        setup.params(url)?;
        setup.check()?;
        if let Some(ttl) = url.common.ttl.filter(|ttl| *ttl > setup.max_keep) {
            let problem = format!("{url}: a ttl of {ttl:?} is longer than max-keep");
            return Err(Error::invalid(problem).with_remedy("a longer max-keep, or a shorter ttl"));
        }
        Ok(setup)
    }

    fn params(&mut self, url: &StoreUrl) -> Result<()> {
        let parts = |key: &str| -> Option<Vec<&str>> {
            url.params.get(key).map(|list| list.split(',').collect())
        };
        let (users, passwords) = (parts("users"), parts("passwords"));
        for (key, list) in [("users", &users), ("passwords", &passwords)] {
            if list.as_ref().is_some_and(|list| list.len() != self.hosts.hosts.len()) {
                return Err(wrong_param(url, key, "as many as there are hosts, with commas"));
            }
        }
        let (own_user, own_password) = (self.hosts.user.clone(), self.hosts.password.clone());
        let of = |list: &Option<Vec<&str>>, at: usize| {
            list.as_ref().and_then(|list| list.get(at).map(|part| (*part).to_owned()))
        };
        if users.is_some() || passwords.is_some() {
            self.logins = (0..self.hosts.hosts.len())
                .map(|at| {
                    let user = of(&users, at).filter(|user| !user.is_empty());
                    let password = of(&passwords, at).map(Secret::new);
                    (user.or_else(|| own_user.clone()), password.or_else(|| own_password.clone()))
                })
                .collect();
        }
        for (key, value) in &url.params {
            match key.as_str() {
                "members" => self.members = Some(Hosts::new(value.split(','), NO_MEMBER)),
                "max-keep" => self.max_keep = KEEP.read(url, key, value)?,
                "node-timeout" => {
                    self.node_timeout = Some(NODE_TIMEOUT.read(url, key, value)?);
                }
                "timeout" => self.hosts.timeout = TIMEOUT.read(url, key, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the addresses and the times.
    pub(crate) fn check(&self) -> Result<()> {
        self.hosts.check()?;
        let times = [
            ("max-keep", Some(self.max_keep), &KEEP),
            ("node-timeout", self.node_timeout, &NODE_TIMEOUT),
        ];
        for (what, time, limits) in times {
            // The servers keep whole milliseconds.
            let is_fine = |time: &Duration| {
                limits.nearest(*time) == *time && time.subsec_nanos().is_multiple_of(1_000_000)
            };
            if let Some(time) = time.filter(|time| !is_fine(time)) {
                let problem = format!("{what}={}", format_duration(time));
                return Err(Error::invalid(problem).with_remedy(limits.remedy));
            }
        }
        if let Some(members) = &self.members {
            members.check()?;
            if members.hosts.len() != self.hosts.hosts.len() {
                let (names, hosts) = (members.hosts.len(), self.hosts.hosts.len());
                return Err(Error::invalid(format!("members= with {names} of {hosts} servers"))
                    .with_remedy("a name for each server, as the other clients name them"));
            }
            let names = self.member_names();
            let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
            if let Some((_, name)) = twice {
                return Err(Error::invalid(format!("members= names {name} twice"))
                    .with_remedy("a name for each server, as the other clients name them"));
            }
        }
        let hosts: Vec<_> = self.endpoints().collect();
        if hosts.len() < NODES_MIN {
            let s = if hosts.len() == 1 { "" } else { "s" };
            let problem = format!("a Redlock of {} server{s}: {NODES_MIN} are needed", hosts.len());
            return Err(Error::invalid(problem)
                .with_remedy("redlock://HOST,HOST,HOST, or redis:// for one server"));
        }
        let twice = hosts.iter().enumerate().find(|(at, host)| hosts[..*at].contains(host));
        match twice {
            Some((_, host)) => Err(Error::invalid(format!("{host} is named twice"))
                .with_remedy("each server once: they have to fail one by one")),
            None => Ok(()),
        }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.hosts.addresses(PORT).map(|(host, port)| Endpoint { host: host.to_owned(), port })
    }

    /// The servers as all clients name them, in the order of the hosts.
    pub(crate) fn member_names(&self) -> Vec<String> {
        let hosts = self.members.as_ref().unwrap_or(&self.hosts);
        let host = |(host, port): (&str, u16)| Endpoint { host: host.to_lowercase(), port };
        hosts.addresses(PORT).map(|named| host(named).to_string()).collect()
    }

    /// How long an attempt with this ttl waits for one node.
    pub(crate) fn node_timeout(&self, ttl: Duration) -> Duration {
        self.node_timeout.unwrap_or_else(|| NODE_TIMEOUT_MIN.max(ttl / 200))
    }

    /// How long the opening waits for a majority: it ends before its caller gives up, so that the
    /// error names the servers that were silent.
    pub(crate) fn opening_limit(&self) -> Duration {
        let within = self.open_within.map(|within| within.mul_f64(OPENING));
        self.hosts.timeout.min(within.unwrap_or(Duration::MAX))
    }

    /// A shorter ttl may be over before an attempt is.
    pub(crate) fn ttl_min(&self) -> Duration {
        self.node_timeout.unwrap_or(NODE_TIMEOUT_MIN) * TIMEOUTS
    }

    /// The settings of the connection to each node.
    pub(crate) fn settings(&self) -> Result<Vec<Settings>> {
        let tls = self.hosts.tls.as_ref().map(TlsSettings::load).transpose()?;
        let of = |at: usize| {
            let (user, password) = self
                .logins
                .get(at)
                .cloned()
                .unwrap_or_else(|| (self.hosts.user.clone(), self.hosts.password.clone()));
            Settings {
                user,
                password,
                db: self.db,
                tls: tls.clone(),
                only_master: !self.waived.contains(&Check::Replica),
                stays_master: !self.waived.contains(&Check::Replica),
                never_forgets: !self.waived.contains(&Check::Eviction),
                trials: rights::trials(&self.waived),
                timeout: self.hosts.timeout,
                connect_timeout: self.hosts.timeout.max(CONNECT_MIN),
                ..Settings::default()
            }
        };
        Ok((0..self.hosts.hosts.len()).map(of).collect())
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.hosts.tls.is_some() { "s" } else { "" };
        write!(f, "redlock{s}://{}", self.hosts.shown(PORT))?;
        match self.db {
            0 => Ok(()),
            db => write!(f, "/{db}"),
        }
    }
}

fn database(url: &StoreUrl) -> Result<u32> {
    match url.path.trim_matches('/') {
        "" => Ok(0),
        number => number.parse().map_err(|_| {
            Error::invalid(format!("{url}: the path is not the number of a database"))
                .with_remedy("redlock://HOST,HOST,HOST/0")
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
        let setup = read(
            "redlocks://app:pw@a,b:7,c/3?max-keep=2m&timeout=1s&node-timeout=80ms&users=,u,v&passwords=x,y,z",
        )
        .unwrap();
        assert_eq!(setup.to_string(), "redlocks://a:6379,b:7,c:6379/3");
        assert_eq!(
            (setup.max_keep, setup.ttl_min()),
            (Duration::from_secs(120), Duration::from_millis(320))
        );
        let logins = setup.settings().unwrap();
        let users: Vec<_> = logins.iter().map(|login| login.user.as_deref()).collect();
        assert_eq!(users, [Some("app"), Some("u"), Some("v")]);
        assert!(logins.iter().all(|login| login.password.is_some() && login.db == 3));
    }

    #[test]
    fn the_time_out_of_a_node_grows_with_the_ttl() {
        let setup = read("redlock://a,b,c").unwrap();
        assert_eq!(setup.node_timeout(Duration::from_secs(1)), Duration::from_millis(50));
        assert_eq!(setup.node_timeout(Duration::from_secs(60)), Duration::from_millis(300));
    }

    #[test]
    fn fewer_than_three_servers_and_one_server_twice_are_refused() {
        for (url, problem) in [
            ("redlock://a", "a Redlock of 1 server: 3 are needed"),
            ("redlock://a,b", "a Redlock of 2 servers: 3 are needed"),
            ("redlock://a,b,a:6379", "a:6379 is named twice"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(
                (error.kind(), error.message()),
                (lockkeeper_core::ErrorKind::Invalid, problem)
            );
        }
        assert!(read("redlock://a,b,c,d").is_ok(), "an even number is allowed");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy() {
        for (url, remedy) in [
            ("redlock://a,b,c/x", "redlock://HOST,HOST,HOST/0"),
            ("redlock://a,b,c?max-keep=1ms", KEEP.remedy),
            ("redlock://a,b,c?node-timeout=0s", NODE_TIMEOUT.remedy),
            ("redlock://a,b,c?passwords=x,y", "as many as there are hosts, with commas"),
            ("redlock://a,b,c?ttl=61s", "a longer max-keep, or a shorter ttl"),
            ("redlock://a,b,c?max-kep=61s", "max-keep="),
            ("redlock://a,b,c?ca=/c", "redlocks://"),
        ] {
            assert_eq!(read(url).unwrap_err().remedy(), Some(remedy), "{url}");
        }
    }
}
