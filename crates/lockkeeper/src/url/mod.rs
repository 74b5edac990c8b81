//! The URL of a store: `scheme://[user[:pw]@]host[:port][,host[:port]…][/path][?k=v&…]`, `memory:` and `file:PATH`.
//!
//! This is a parser of our own for two reasons. A store may have several hosts in one authority, which general URL
//! parsers refuse. And a password must not come out again: here it is a [`Secret`] from the moment it is read, what
//! prints a URL never has it in its hands, and no error repeats a piece of an authority that could not be read.
//!
//! IPv6 addresses stand in brackets. User, password, path and parameters may be %-encoded, and in a user or a
//! password `:`, `/`, `?`, `#` and `@` must be. All URLs take these parameters:
//!
//! | parameter | value | default |
//! |---|---|---|
//! | `prefix=` | text put before every name | none |
//! | `epoch=` | 0 to 511, raised after a restore or a move | 0 |
//! | `ttl=` | a [duration](crate::duration) above 0 | 30 s |
//! | `max-waiters=` | how many may wait in one line | 1000 |
//! | `unsafe=` | names of preconditions to go without, separated by commas | none |
//!
//! ```
//! use lockkeeper::url::StoreUrl;
//!
//! let url: StoreUrl = "redis://app:hunter2@a:7000,b/0?prefix=billing/&ttl=20s".parse()?;
//! assert_eq!(url.hosts[0].port, Some(7000));
//! assert_eq!(url.common.prefix.as_deref(), Some("billing/"));
//! assert_eq!(url.to_string(), "redis://app:***@a:7000,b/0?prefix=billing/&ttl=20s");
//! # Ok::<(), lockkeeper::Error>(())
//! ```

mod authority;
mod params;
mod parse;
mod scheme;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::scheme::nearest;
use crate::{Error, Result, Secret};

/// Where a store is and how to get in, as a URL says it.
///
/// Neither `Display` nor `Debug` shows a password or a parameter that looks like one: they show `***`.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreUrl {
    /// What kind of store, in lower case: `memory`, `file`, `redis`, …
    pub scheme: &'static str,
    /// The user, decoded.
    pub user: Option<String>,
    /// The password, decoded.
    pub password: Option<Secret>,
    /// What a lock server knows its client by. It has no place in a URL; see [`with_api_token`](Self::with_api_token).
    pub api_token: Option<Secret>,
    /// The hosts, in the order given; none for `memory:` and `file:`.
    pub hosts: Vec<Host>,
    /// The path, decoded: with its leading `/` behind hosts, empty when there is none. Of `file:` the path of the file,
    /// relative to the working directory unless it is absolute.
    pub path: String,
    /// The parameters that every URL takes.
    pub common: CommonParams,
    /// The parameters of this scheme, decoded.
    pub params: BTreeMap<String, String>,
}

/// One host of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Host {
    /// A name or an address; an IPv6 address without its brackets.
    pub name: String,
    /// The port, where one is given.
    pub port: Option<u16>,
}

/// The parameters that every URL takes; `None` or empty where one is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommonParams {
    /// Put before every name.
    pub prefix: Option<String>,
    /// The epoch of the tokens, 0 to 511.
    pub epoch: Option<u16>,
    /// How long a lock outlives its last renewal.
    pub ttl: Option<Duration>,
    /// How many may wait in one line.
    pub max_waiters: Option<u32>,
    /// The preconditions to go without.
    pub unsafe_checks: Vec<String>,
}

impl CommonParams {
    /// The names that these parameters have in a URL.
    pub const NAMES: [&'static str; 5] = ["prefix", "epoch", "ttl", "max-waiters", "unsafe"];
}

impl StoreUrl {
    /// Reads a URL of any scheme that lockkeeper knows or will know; [`available`](Self::available) tells whether this
    /// build has its store.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid), in one line that repeats nothing of the part that may hold a password.
    pub fn parse(text: &str) -> Result<Self> {
        // One that is relative would be another place in every working directory.
        let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
        parse::parse(text, home.as_deref())
    }

    /// The same with another password, one that came from a file or from elsewhere; a store that knows no passwords
    /// does not look at it.
    ///
    /// ```
    /// use lockkeeper::{Secret, url::StoreUrl};
    ///
    /// let url: StoreUrl = "redis://app@a:7000".parse()?;
    /// assert_eq!(url.with_password(Secret::new("hunter2")).to_string(), "redis://app:***@a:7000");
    /// # Ok::<(), lockkeeper::Error>(())
    /// ```
    #[must_use]
    pub fn with_password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    /// The same with a token for a lock server; other stores do not look at it.
    #[must_use]
    pub fn with_api_token(mut self, token: Secret) -> Self {
        self.api_token = Some(token);
        self
    }

    /// Sets one of the [parameters that every URL takes](CommonParams::NAMES), if the URL does not set it itself.
    ///
    /// ```
    /// use lockkeeper::url::StoreUrl;
    ///
    /// let url: StoreUrl = "memory:?ttl=5s".parse()?;
    /// let url = url.or_set("ttl", "20s")?.or_set("prefix", "billing/")?;
    /// assert_eq!(url.to_string(), "memory:?prefix=billing/&ttl=5s");
    /// # Ok::<(), lockkeeper::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for another name, and for a value that a URL could not have.
    pub fn or_set(mut self, name: &str, value: &str) -> Result<Self> {
        params::fill(name, value, &mut self)?;
        Ok(self)
    }

    /// Whether this build has the store.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the cargo feature that it needs, or saying that this
    /// version of lockkeeper does not have it.
    pub fn available(&self) -> Result<()> {
        scheme::available(self.scheme)
    }

    /// Whether it carries a password, or a parameter that looks like one. Such a URL does not belong on a command line,
    /// where every user of the machine can read it.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || self.api_token.is_some() || self.params.keys().any(|key| params::is_secret(key))
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    /// # Errors
    /// As [`StoreUrl::parse`].
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for StoreUrl {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&String> for StoreUrl {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&Self> for StoreUrl {
    type Error = Error;

    fn try_from(url: &Self) -> Result<Self> {
        Ok(url.clone())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write::url(self, f)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl Host {
    /// The same host, with this port if it has none.
    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self { name: self.name.clone(), port: self.port.or(Some(port)) }
    }
}

impl FromStr for Host {
    type Err = Error;

    /// A name or an address, with a port behind a colon where it is not the usual one: `10.0.0.5:7000`, `[::1]`.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for anything else.
    fn from_str(text: &str) -> Result<Self> {
        authority::host(text, 1)
    }
}

impl fmt::Display for Host {
    /// `name:port`, with an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.name),
            (true, None) => write!(f, "[{}]", self.name),
            (false, Some(port)) => write!(f, "{}:{port}", self.name),
            (false, None) => f.write_str(&self.name),
        }
    }
}
