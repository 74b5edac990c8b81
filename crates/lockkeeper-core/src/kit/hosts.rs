//! The common part of the builders of stores with servers: the addresses, the login, TLS, the time
//! limit.

use std::time::Duration;

use crate::duration::parse_duration;
use crate::url::{Host, Param, StoreUrl, UrlSyntax};
use crate::{Error, Result, Secret, Tls};

/// How long a request may stay without an answer, if the builder sets nothing else.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How a store reaches its servers.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub hosts: Vec<Host>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub tls: Option<Tls>,
    /// How long a request may stay without an answer.
    pub timeout: Duration,
    /// Why these addresses cannot be used. It is reported when the store is opened.
    problem: Option<Error>,
}

impl Hosts {
    /// The parameter `timeout=` of a URL.
    pub const TIMEOUT: Param =
        Param::new("timeout", "how long a request may stay without an answer; 3s by default");
    /// The parameter `ca=` of a URL.
    pub const CA: Param = Param::new(
        "ca",
        "a file with the certificates to trust; the system's certificates by default",
    );
    /// The parameter `cert=` of a URL.
    pub const CERT: Param =
        Param::new("cert", "a file with the certificate to show, together with `key`");
    /// The parameter `key=` of a URL.
    pub const KEY: Param = Param::new("key", "a file with the private key of `cert`");
    /// The parameter `server-name=` of a URL.
    pub const SERVER_NAME: Param =
        Param::new("server-name", "the name in the server's certificate; the host by default");

    /// The settings for these addresses, each `HOST` or `HOST:PORT`. `missing` is the problem
    /// without an address ("a store without a host").
    pub fn new<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>, missing: &str) -> Self {
        let mut problem = None;
        let mut read =
            |host: H| host.as_ref().parse::<Host>().map_err(|error| problem = Some(error)).ok();
        let hosts: Vec<_> = hosts.into_iter().filter_map(&mut read).collect();
        if hosts.is_empty() && problem.is_none() {
            problem = Some(Error::invalid(missing).with_remedy("HOST or HOST:PORT"));
        }
        Self { hosts, user: None, password: None, tls: None, timeout: TIMEOUT, problem }
    }

    /// The settings of a URL of this store; with its TLS parameters if its scheme is one of TLS.
    ///
    /// # Errors
    /// `Invalid` for a parameter, or a check under `unsafe=`, that the store does not have, and for
    /// parameters of TLS that do not fit together, or to a scheme without TLS.
    pub fn from_url(url: &StoreUrl, store: &UrlSyntax, has_tls: bool) -> Result<Self> {
        store.check(url)?;
        let of_tls = [Self::CA, Self::CERT, Self::KEY, Self::SERVER_NAME].map(|param| param.name);
        if let Some(key) = url.params.keys().find(|key| !has_tls && of_tls.contains(&key.as_str()))
        {
            return Err(url.has_no_tls(key));
        }
        let tls = if has_tls { Some(url.tls()?) } else { None };
        let (hosts, user, password) = (url.hosts.clone(), url.user.clone(), url.password.clone());
        Ok(Self { hosts, user, password, tls, timeout: TIMEOUT, problem: None })
    }

    /// Checks the addresses.
    ///
    /// # Errors
    /// `Invalid` with the address that cannot be read.
    pub fn check(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    /// The addresses with their ports.
    pub fn addresses(&self, port: u16) -> impl Iterator<Item = (&str, u16)> {
        self.hosts.iter().map(move |host| (host.name.as_str(), host.port.unwrap_or(port)))
    }

    /// The addresses in the form of a URL.
    pub fn shown(&self, port: u16) -> String {
        let hosts: Vec<_> =
            self.hosts.iter().map(|host| host.with_port(port).to_string()).collect();
        hosts.join(",")
    }
}

/// The error for a parameter of a URL.
pub fn wrong_param(url: &StoreUrl, key: &str, remedy: &str) -> Error {
    Error::invalid(format!("{url}: {key}= cannot be used with this value, or with this URL"))
        .with_remedy(remedy)
}

/// The limits of a time that a URL sets, and their names.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub least: Duration,
    pub most: Duration,
    pub remedy: &'static str,
}

impl Limits {
    /// The time that `key=value` of the URL sets.
    ///
    /// # Errors
    /// `Invalid` for a text that is no time within the limits.
    pub fn read(&self, url: &StoreUrl, key: &str, value: &str) -> Result<Duration> {
        let time =
            parse_duration(value).ok().filter(|time| (self.least..=self.most).contains(time));
        time.ok_or_else(|| wrong_param(url, key, self.remedy))
    }

    /// The nearest time within the limits.
    pub fn nearest(&self, time: Duration) -> Duration {
        time.clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        least: Duration::from_millis(50),
        most: Duration::from_secs(60),
        remedy: "timeout=3s",
    };

    #[test]
    fn addresses_have_the_port_of_the_store_unless_they_have_their_own() {
        let hosts = Hosts::new(["a", "[::1]:7"], "none");
        assert_eq!(hosts.addresses(5).collect::<Vec<_>>(), [("a", 5), ("::1", 7)]);
        assert_eq!((hosts.shown(5).as_str(), hosts.check()), ("a:5,[::1]:7", Ok(())));
    }

    #[test]
    fn what_cannot_be_read_is_said_when_the_store_is_opened() {
        let none = Hosts::new(Vec::<String>::new(), "a store without a host");
        assert_eq!(none.check().unwrap_err().message(), "a store without a host");
        assert!(Hosts::new(["a", "a:b:c"], "none").check().is_err());
    }

    #[test]
    fn a_url_sets_login_and_tls_and_a_scheme_without_tls_has_no_parameters_for_it() {
        let url: StoreUrl = "rediss://app:pw@a?ca=/c".parse().unwrap();
        let store = UrlSyntax::new(&[]).params(&[Hosts::CA]);
        let hosts = Hosts::from_url(&url, &store, true).unwrap();
        assert_eq!((hosts.user.as_deref(), hosts.password.is_some()), (Some("app"), true));
        assert!(hosts.tls.is_some_and(|tls| tls.ca.is_some()));
        assert!(
            Hosts::from_url(&url, &store, false).unwrap_err().message().contains("ca= needs TLS")
        );
    }

    #[test]
    fn a_time_outside_its_limits_is_refused_in_a_url_and_moved_by_a_builder() {
        let url: StoreUrl = "redis://a".parse().unwrap();
        assert_eq!(LIMITS.read(&url, "timeout", "50ms"), Ok(Duration::from_millis(50)));
        for wrong in ["49ms", "61s", "soon"] {
            assert_eq!(
                LIMITS.read(&url, "timeout", wrong).unwrap_err().remedy(),
                Some("timeout=3s"),
                "{wrong}"
            );
        }
        assert_eq!(LIMITS.nearest(Duration::ZERO), LIMITS.least);
        assert_eq!(LIMITS.nearest(Duration::MAX), LIMITS.most);
    }
}
