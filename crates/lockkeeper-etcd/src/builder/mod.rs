//! Opening an etcd store.

#[doc(hidden)]
pub mod checks;
pub(crate) mod identity;
mod marker;
mod opening;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use self::marker::folder;
use crate::layout::{Layout, Lines};
use crate::net::{Endpoint, TlsSettings};
use crate::store::Store;
use crate::url::{Param, Scheme, StoreUrl, UrlForm, UrlSyntax};
use crate::wire::{Login, Settings};
use crate::{Check, Error, EtcdStore, Open, Result, Secret, Tls};
use lockkeeper_core::kit::{Hosts, Limits, wrong_param};

const PORT: u16 = 2379;
const TIMEOUT: Limits = Limits {
    least: Duration::from_millis(50),
    most: Duration::MAX,
    remedy: "timeout=3s, and at least 50ms",
};

/// What the URLs of an etcd look like.
pub(crate) static URLS: UrlSyntax =
    UrlSyntax::new(&[Scheme::new("etcd", UrlForm::Hosts, "etcd://HOST,HOST,HOST").tls("etcds")])
        .params(&[
            Param::new(
                "layout",
                "the layout of the keys: `native`, the default, or `concurrency`, which Go shares",
            ),
            Hosts::TIMEOUT,
            Hosts::CA,
            Hosts::CERT,
            Hosts::KEY,
            Hosts::SERVER_NAME,
        ])
        .checks(&["layout", "members", "version"]);

impl EtcdStore {
    /// The store on the cluster with these members, each `HOST` or `HOST:PORT`.
    #[allow(
        clippy::new_ret_no_self,
        reason = "what is new is how to open one, as with every store"
    )]
    pub fn new<H: AsRef<str>>(members: impl IntoIterator<Item = H>) -> EtcdStoreBuilder {
        EtcdStoreBuilder::new(members)
    }

    /// A builder for the store that a URL names: `etcd://`, and `etcds://` for TLS.
    ///
    /// # Errors
    /// [`Invalid`](lockkeeper_core::ErrorKind::Invalid) for a URL of another scheme, or one whose
    /// parts do not fit together.
    pub fn from_url(url: &StoreUrl) -> Result<EtcdStoreBuilder> {
        EtcdStoreBuilder::from_url(url)
    }
}

/// The options for an [`EtcdStore`]. A keeper takes the builder unopened too: see [`Open`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before connect()"]
pub struct EtcdStoreBuilder {
    pub(crate) hosts: Hosts,
    prefix: Option<String>,
    layout: Layout,
    pub(crate) waived: Vec<Check>,
}

impl EtcdStoreBuilder {
    pub(crate) fn new<H: AsRef<str>>(members: impl IntoIterator<Item = H>) -> Self {
        Self::on(Hosts::new(members, "an etcd store without a member"))
    }

    fn on(hosts: Hosts) -> Self {
        Self { hosts, prefix: None, layout: Layout::Native, waived: Vec::new() }
    }

    pub(crate) fn from_url(url: &StoreUrl) -> Result<Self> {
        let tls = match url.scheme {
            "etcd" => false,
            "etcds" => true,
            _ => {
                return Err(Error::invalid(format!("{url} is not the URL of an etcd"))
                    .with_remedy("etcd://HOST"));
            }
        };
        let mut builder = Self::on(Hosts::from_url(url, &URLS, tls)?);
        builder.prefix =
            Some(url.path.clone()).filter(|path| !path.trim_end_matches('/').is_empty());
        builder.waived =
            url.common.unsafe_checks.iter().filter_map(|name| Check::from_name(name)).collect();
        builder.params(url)
    }

    fn params(mut self, url: &StoreUrl) -> Result<Self> {
        for (key, value) in &url.params {
            match key.as_str() {
                "timeout" => self.hosts.timeout = TIMEOUT.read(url, key, value)?,
                "layout" => match Layout::from_name(value) {
                    Some(layout) => self.layout = layout,
                    None => {
                        return Err(wrong_param(
                            url,
                            key,
                            &format!("layout={}", Layout::NAMES.join(" or layout=")),
                        ));
                    }
                },
                _ => {}
            }
        }
        Ok(self)
    }

    /// Logs in as this user. Without a user the client does not log in: its rights are those of a
    /// client without a login, or of the user that its certificate names.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.hosts.user = Some(user.into());
        self
    }

    /// Logs in with this password.
    pub fn password(mut self, password: Secret) -> Self {
        self.hosts.password = Some(password);
        self
    }

    /// Encrypts all connections.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.hosts.tls = Some(tls);
        self
    }

    /// Sets the layout of the keys; [`Layout::Native`] by default.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the text that every key begins with; by default `/lockkeeper` in the native layout, and
    /// nothing in other layouts.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets how long a request may stay without an answer before the client asks another member; 3
    /// s by default, at least 50 ms.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.hosts.timeout = TIMEOUT.nearest(timeout);
        self
    }

    /// Waives this check: the store connects although it fails.
    pub fn allow(mut self, check: Check) -> Self {
        self.waived.push(check);
        self
    }

    /// Connects, and checks whether a majority answers.
    ///
    /// # Errors
    /// - `Unsupported`: a [`Check`] fails.
    /// - `Unavailable`: no member answers, or there is no leader.
    /// - `Denied`: the wrong password, or no rights on the prefix.
    /// - `Invalid`: an address or a file that cannot be used.
    ///
    /// # Cancel safety
    /// The future may be dropped. Its connection is closed then.
    pub async fn connect(self) -> Result<EtcdStore> {
        self.hosts.check()?;
        EtcdStore::open(self).await
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Endpoint> + '_ {
        self.hosts.addresses(PORT).map(|(host, port)| Endpoint { host: host.to_owned(), port })
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        let login = match (&self.hosts.user, &self.hosts.password) {
            (Some(user), password) => Some(Login {
                user: user.clone(),
                password: password.clone().unwrap_or_else(|| Secret::new("")),
            }),
            (None, Some(_)) => {
                return Err(Error::invalid("a password for etcd without a user")
                    .with_remedy("etcd://USER@HOST"));
            }
            (None, None) => None,
        };
        let tls = self.hosts.tls.as_ref().map(TlsSettings::load).transpose()?;
        Ok(Settings { login, tls, timeout: self.hosts.timeout })
    }

    pub(crate) fn lines(&self) -> Lines {
        Lines::new(self.layout, self.prefix.as_deref())
    }
}

#[async_trait]
impl Open<dyn Store> for EtcdStoreBuilder {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.connect().await?))
    }
}

/// The address without secrets, as a URL has it.
impl fmt::Display for EtcdStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.hosts.tls.is_some() { "s" } else { "" };
        write!(f, "etcd{s}://{}", self.hosts.shown(PORT))?;
        match self.lines().prefix() {
            Some(prefix) => write!(f, "/{}", prefix.trim_start_matches('/')),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<EtcdStoreBuilder> {
        EtcdStoreBuilder::from_url(&url.parse()?)
    }

    #[test]
    fn a_url_says_everything() {
        let built =
            read("etcds://app:pw@a,b:7/shop/locks?timeout=500ms&layout=concurrency&ca=/c").unwrap();
        let addresses: Vec<_> = built.addresses().map(|address| address.to_string()).collect();
        assert_eq!(addresses, ["a:2379", "b:7"]);
        assert_eq!(
            (built.layout, built.hosts.timeout),
            (Layout::Concurrency, Duration::from_millis(500))
        );
        assert_eq!(built.hosts.user.as_deref(), Some("app"));
        assert!(built.hosts.tls.as_ref().is_some_and(|tls| tls.ca.is_some()));
        assert_eq!(built.to_string(), "etcds://a:2379,b:7/shop/locks");
    }

    #[test]
    fn an_address_is_enough() {
        assert_eq!(read("etcd://h").unwrap().to_string(), "etcd://h:2379");
        assert_eq!(read("etcd://h/").unwrap().to_string(), "etcd://h:2379");
        assert_eq!(EtcdStore::new(["[::1]:7", "h"]).to_string(), "etcd://[::1]:7,h:2379");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_remedy() {
        for (url, remedy) in [
            ("etcd://a?timeout=1ms", "timeout=3s, and at least 50ms"),
            ("etcd://a?layout=plain", "layout=native or layout=concurrency"),
            ("etcd://a?ca=/x", "etcds://"),
            ("etcd://a?unsafe=layuot", "unsafe=layout"),
            ("etcd://a?layuot=native", "layout="),
        ] {
            assert_eq!(read(url).unwrap_err().remedy(), Some(remedy), "{url}");
        }
        let error = read("etcd://a?ca=/x").unwrap_err();
        assert!(error.message().ends_with("ca= needs TLS, and etcd:// has none"), "{error}");
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_read_learns_when_it_is_used() {
        let error = EtcdStore::new(["a:b:c"]).connect().await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Invalid);
        assert!(EtcdStore::new(Vec::<String>::new()).connect().await.is_err());
        let error = EtcdStore::new(["h"]).password(Secret::new("pw")).connect().await.unwrap_err();
        assert_eq!(error.remedy(), Some("etcd://USER@HOST"));
    }
}
