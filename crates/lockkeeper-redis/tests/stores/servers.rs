//! The Redis servers that tests share, in every way of connection.

use lockkeeper_live::Servers;

pub(crate) struct Standalone;

impl Servers for Standalone {
    fn url() -> String {
        lockkeeper_live::redis().unwrap().url()
    }
}

/// For a middleman before a server that knows nothing newer.
pub(crate) struct ByResp2;

impl Servers for ByResp2 {
    fn url() -> String {
        Standalone::url() + "?resp=2"
    }
}

pub(crate) struct BehindTls;

impl Servers for BehindTls {
    fn url() -> String {
        let redis = lockkeeper_live::redis_tls().unwrap();
        format!("{}?ca={}", redis.url(), redis.certificates().unwrap().authority().display())
    }
}

pub(crate) struct BySentinels;

impl Servers for BySentinels {
    fn url() -> String {
        lockkeeper_live::sentinel().unwrap().url()
    }
}

/// Every grant waits for a replica.
pub(crate) struct WithAReplica;

impl Servers for WithAReplica {
    fn url() -> String {
        BySentinels::url() + "?min-replicas=1"
    }
}

pub(crate) struct Clustered;

impl Servers for Clustered {
    fn url() -> String {
        lockkeeper_live::cluster().unwrap().url()
    }
}
