//! The URL of a store: `scheme://[user[:pw]@]host[:port][,host[:port]…][/path][?k=v&…]`, `memory:`
//! and `file:PATH`.
//!
//! lockkeeper has its own parser for two reasons. A store may have several hosts in one authority,
//! which general URL parsers refuse. And a password must never be printed. The parser turns it into
//! a [`Secret`] at once, the code that prints a URL has no access to it, and no error repeats a
//! part of an unreadable authority.
//!
//! IPv6 addresses are in brackets. User, password, path and parameters may be %-encoded. In a user
//! or a password, `:`, `/`, `?`, `#` and `@` must be %-encoded. All URLs take these parameters:
//!
//! | parameter | value | default |
//! |---|---|---|
//! | `prefix=` | text put before every name | none |
//! | `epoch=` | 0 to 511, raised after a restore or a move | 0 |
//! | `ttl=` | a [duration](crate::duration) above 0 | 30 s |
//! | `max-waiters=` | how many waiters one line may have | 1000 |
//! | `unsafe=` | names of the checks to waive, separated by commas | none |
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
mod nearest;
mod params;
mod parse;
mod scheme;
mod syntax;
#[cfg(test)]
mod tests;
#[cfg(feature = "net")]
mod tls;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use self::nearest::nearest;
#[doc(hidden)]
pub use self::scheme::{is_own, register};
pub use self::syntax::{Param, Scheme, UrlForm, UrlSyntax};
use crate::{Error, Result, Secret};

/// The URL of a store: its address and its credentials.
///
/// Neither `Display` nor `Debug` shows a password or a parameter that looks like one: they show
/// `***`.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreUrl {
    /// The kind of store, in lower case: `memory`, `file`, `redis`, …
    pub scheme: &'static str,
    /// The user, decoded.
    pub user: Option<String>,
    /// The password, decoded.
    pub password: Option<Secret>,
    /// The hosts, in the order given; none for `memory:` and `file:`.
    pub hosts: Vec<Host>,
    /// The path, decoded: with its leading `/` after hosts, empty if there is none. For `file:` it
    /// is the path of the file, relative to the working directory unless it is absolute.
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
    /// The port, if one is given.
    pub port: Option<u16>,
}

/// The parameters that every URL takes; `None` or empty for a missing parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommonParams {
    /// The text put before every name.
    pub prefix: Option<String>,
    /// The epoch of the tokens, 0 to 511.
    pub epoch: Option<u16>,
    /// How long a lock is held after its last renewal.
    pub ttl: Option<Duration>,
    /// How many waiters one line may have.
    pub max_waiters: Option<u32>,
    /// The checks to waive.
    pub unsafe_checks: Vec<String>,
    /// How long the caller waits for the opening of the store, if it limits this wait. The text of
    /// a URL does not have it. A store that ends the opening in time can report what was missing.
    pub open_within: Option<Duration>,
}

impl CommonParams {
    /// The names that these parameters have in a URL.
    pub const NAMES: [&'static str; 5] = ["prefix", "epoch", "ttl", "max-waiters", "unsafe"];
}

impl StoreUrl {
    /// Reads a URL of any scheme that lockkeeper knows now or will know later, whichever stores
    /// this build has. A store that the build lacks is refused when it is opened. The names of the
    /// parameters that one store takes are checked by its driver: `Keeper::from_url` and the
    /// builders of the stores refuse others.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid), in one line that repeats no part of the URL that may
    /// hold a password.
    pub fn parse(text: &str) -> Result<Self> {
        // A relative path would name another place in every working directory.
        let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
        parse::parse(text, home.as_deref())
    }

    /// Returns the URL with another password, for instance one from a file. A store without
    /// passwords ignores it.
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

    /// Sets one of the [parameters that every URL takes](CommonParams::NAMES), unless the URL
    /// already sets it.
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
    /// [`Invalid`](crate::ErrorKind::Invalid) for another name, and for a value that a URL could
    /// not have.
    pub fn or_set(mut self, name: &str, value: &str) -> Result<Self> {
        params::fill(name, value, &mut self)?;
        Ok(self)
    }

    /// Returns the error for a build that lacks the store. The message names what the store needs,
    /// or states that this version of lockkeeper does not have the store.
    #[doc(hidden)]
    pub fn lacking(&self) -> Error {
        scheme::lacking(self.scheme)
    }

    /// Returns whether the URL has a password, or a parameter that looks like one. Such a URL does
    /// not belong on a command line, where every user of the machine can read it.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || self.params.keys().any(|key| params::is_secret(key))
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    /// # Errors
    /// The errors of [`StoreUrl::parse`].
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
    #[doc(hidden)]
    pub fn with_port(&self, port: u16) -> Self {
        Self { name: self.name.clone(), port: self.port.or(Some(port)) }
    }
}

impl FromStr for Host {
    type Err = Error;

    /// Reads a name or an address, with an optional port behind a colon: `10.0.0.5:7000`, `[::1]`.
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
