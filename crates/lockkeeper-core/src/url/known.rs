//! The URLs that can be read: the URLs of lockkeeper's own stores, in every build, and the URLs of
//! registered stores.

use std::sync::{PoisonError, RwLock};

use super::syntax::{Param, Scheme, UrlForm, UrlSyntax};

#[doc(hidden)]
pub static MEMORY: UrlSyntax = UrlSyntax::new(&[Scheme::new("memory", UrlForm::Alone, "memory:")]);

#[doc(hidden)]
pub static FILE: UrlSyntax = UrlSyntax::new(&[Scheme::new("file", UrlForm::Path, "file:PATH")])
    .checks(&["network-fs", "permissions"]);

#[doc(hidden)]
pub static REDIS: UrlSyntax = UrlSyntax::new(&[
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
    TIMEOUT,
    Param::new(
        "resp",
        "the version of the protocol, 3 by default; 2 for a proxy that knows no other",
    ),
    CA,
    CERT,
    KEY,
    SERVER_NAME,
])
.checks(&["eviction", "replica", "version", "rights"]);

#[doc(hidden)]
pub static ETCD: UrlSyntax =
    UrlSyntax::new(&[Scheme::new("etcd", UrlForm::Hosts, "etcd://HOST,HOST,HOST").tls("etcds")])
        .params(&[
            Param::new(
                "layout",
                "the layout of the keys: `native`, the default, or `concurrency`, which Go shares",
            ),
            TIMEOUT,
            CA,
            CERT,
            KEY,
            SERVER_NAME,
        ])
        .checks(&["layout", "members", "version"]);

const TIMEOUT: Param =
    Param::new("timeout", "how long a request may stay without an answer; 3s by default");
const CA: Param =
    Param::new("ca", "a file with the certificates to trust; the system's certificates by default");
const CERT: Param = Param::new("cert", "a file with the certificate to show, together with `key`");
const KEY: Param = Param::new("key", "a file with the private key of `cert`");
const SERVER_NAME: Param =
    Param::new("server-name", "the name in the server's certificate; the host by default");

/// One of lockkeeper's own stores.
#[derive(Debug)]
#[doc(hidden)]
pub struct Own {
    /// The form of its URLs.
    pub urls: &'static UrlSyntax,
    /// What a build without the store lacks.
    pub(super) needs: &'static str,
}

/// A line for each of lockkeeper's own stores. The list of drivers has the stores of a build.
#[doc(hidden)]
pub static OWN: [Own; 4] = [
    Own { urls: &MEMORY, needs: "nothing" },
    Own { urls: &FILE, needs: "the cargo feature `file`, on Linux" },
    Own { urls: &REDIS, needs: "the cargo feature `redis`" },
    Own { urls: &ETCD, needs: "the cargo feature `etcd`" },
];

/// Schemes of stores that a later version will have. Their own parameters are not checked until
/// then.
pub(super) const LATER: [&str; 10] = [
    "redlock",
    "redlocks",
    "zk",
    "zks",
    "mysql",
    "mariadb",
    "postgres",
    "postgresql",
    "http",
    "https",
];

/// The URLs of registered stores.
static REGISTERED: RwLock<Vec<&'static UrlSyntax>> = RwLock::new(Vec::new());

/// All URLs that can be read, lockkeeper's own first.
pub(super) fn all() -> Vec<&'static UrlSyntax> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    OWN.iter().map(|own| own.urls).chain(registered.iter().copied()).collect()
}

/// From now on these URLs can be read, if none of their schemes is known already. Otherwise the
/// error is the known scheme.
#[doc(hidden)]
pub fn register(syntax: &'static UrlSyntax) -> Result<(), &'static str> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let own = OWN.iter().map(|own| own.urls);
    let mut known = own.chain(registered.iter().copied()).flat_map(UrlSyntax::names).chain(LATER);
    match known.find(|known| syntax.names().any(|name| name == *known)) {
        Some(taken) => Err(taken),
        None => {
            registered.push(syntax);
            Ok(())
        }
    }
}
