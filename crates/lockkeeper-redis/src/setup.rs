//! What the URLs of the store look like, and what it takes from them.

pub(super) use lockkeeper_redis_client::setup::{Deployment, Setup};

use lockkeeper_redis_foreign::layout_of;

use crate::url::{Param, Scheme, StoreUrl, UrlForm, UrlSyntax};
use crate::{Error, ErrorKind, Result};
use lockkeeper_core::kit::{Hosts, wrong_param};

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
    Param::new(
        "layout",
        "the layout of the keys: `native`, the default, or that of another library: `plain`, \
         `redisson`, `redisson-fenced`, `redisson-fair`, `redisson-rw`, `redisson-semaphore`",
    ),
    Param::new(
        "adopt-ttl",
        "the ttl that a key of `layout=plain` gets if it has none; by default it stays as it is",
    ),
    Param::new(
        "watchdog",
        "the `lockWatchdogTimeout` of Redisson's clients, for `layout=redisson-rw`; 30s by \
         default, as there",
    ),
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

/// The names of the layouts of this store. Another layout is one of another library.
pub(super) const OWN: [&str; 1] = ["native"];

/// The setup in a URL.
pub(super) fn from_url(url: &StoreUrl) -> Result<Setup> {
    if let Some(layout) = layout_of(url, &OWN)? {
        let problem = format!("{url}: the layout {} is one of ForeignRedisStore", layout.name());
        return Err(Error::new(ErrorKind::Invalid, problem).with_remedy("lockkeeper::connect(URL)"));
    }
    if url.params.contains_key("adopt-ttl") {
        return Err(wrong_param(url, "adopt-ttl", "adopt-ttl=30s, with layout=plain"));
    }
    if url.params.contains_key("watchdog") {
        return Err(wrong_param(url, "watchdog", "watchdog=60s, with layout=redisson-rw"));
    }
    Setup::from_url(url, &URLS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(url: &str) -> Result<Setup> {
        from_url(&url.parse()?)
    }

    #[test]
    fn a_url_says_everything() {
        let built =
            read("rediss+sentinel://app:pw@a,b:7/m/3?min-replicas=1&timeout=500ms&resp=2&sentinel-user=s&ca=/c")
                .unwrap();
        assert_eq!(built.topology, Deployment::Sentinel("m".into()));
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
            ("redis://a?layout=plian", "layout=plain"),
            ("redis://a?layout=nativ", "layout=native"),
            ("redis://a?layout=redisson", "lockkeeper::connect(URL)"),
            ("redis://a?adopt-ttl=30s", "adopt-ttl=30s, with layout=plain"),
            ("redis://a?watchdog=60s", "watchdog=60s, with layout=redisson-rw"),
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
