//! The checks of a server before the store uses it. A refusal has the remedy.

use std::collections::HashMap;

use crate::wire::{LACKS, Value, text};
use crate::{Error, ErrorKind, Result};

/// The oldest version of Redis that the store uses.
pub const OLDEST: [u32; 2] = [6, 2];

/// The remedy for a server that makes room by forgetting keys.
pub const NEVER_FORGET: &str =
    "maxmemory-policy noeviction (by CONFIG SET, or in the settings of the provider)";

/// The remedy for a user without the rights that locks need.
pub const SHOWN_RIGHTS: &str = "lockkeeper doctor, which prints the rule";

/// A check that a caller can waive, by the name that the URL has for it (`unsafe=eviction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// `eviction`: the server never removes keys to make room (`maxmemory-policy noeviction`).
    /// Another server may forget a lock that is held, and grant it again. The store checks each new
    /// connection, so it does not use a server that takes over before its policy is set right.
    Eviction,
    /// `replica`: the server is a master. A replica takes no writes. A writable replica forgets its
    /// writes when it is synchronised.
    Replica,
    /// `version`: Redis 6.2 or newer, or Valkey.
    Version,
    /// `rights`: the user may run the commands of the scripts, and may publish. The store tries
    /// this on each new connection. Without the right to publish a waiter receives no message, and
    /// finds its grant with its next renewal.
    Rights,
}

impl Check {
    /// All checks.
    pub const ALL: [Self; 4] = [Self::Eviction, Self::Replica, Self::Version, Self::Rights];

    /// The name in a URL and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::Replica => "replica",
            Self::Version => "version",
            Self::Rights => "rights",
        }
    }

    /// The check of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// The fields of `INFO`.
#[derive(Clone, Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// The fields in an answer to `INFO`.
    ///
    /// # Errors
    /// `Internal` if the answer is no text.
    pub fn of(answer: &Value) -> Result<Self> {
        let none = || Error::new(ErrorKind::Internal, "the server's answer to INFO is not text");
        text(answer).map(Self::parse).ok_or_else(none)
    }

    /// The fields in this text.
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect())
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    /// The version for comparisons. Valkey reports 7.2.4 in this field, whatever its own version
    /// is.
    fn version(&self) -> Option<[u32; 2]> {
        let mut numbers = self.get("redis_version")?.split('.').map(str::parse);
        Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
    }

    /// Whether the server is older than [`OLDEST`].
    pub fn is_old(&self) -> bool {
        self.version().is_some_and(|version| version < OLDEST)
    }

    /// Whether the server is a replica.
    pub fn is_replica(&self) -> bool {
        self.get("role") == Some("slave")
    }

    /// The policy by which the server makes room, if the policy removes keys.
    pub fn evicts(&self) -> Option<&str> {
        self.get("maxmemory_policy").filter(|policy| *policy != "noeviction")
    }
}

/// Refuses a server on which locks cannot be relied on.
pub fn refuse(info: &Info, waived: &[Check]) -> Result<()> {
    let applies = |check: Check| !waived.contains(&check);
    if applies(Check::Version) && info.is_old() {
        let problem = format!(
            "the server is Redis {}, older than 6.2",
            info.get("redis_version").unwrap_or("?")
        );
        return Err(refused(problem, Check::Version, "a newer server"));
    }
    if applies(Check::Replica) && info.is_replica() {
        let master = match (info.get("master_host"), info.get("master_port")) {
            (Some(host), Some(port)) => format!("its master, {host}:{port}"),
            _ => "its master".to_owned(),
        };
        return Err(refused("the server is a replica", Check::Replica, &master));
    }
    match info.evicts().filter(|_| applies(Check::Eviction)) {
        Some(policy) => Err(forgetful(policy)),
        None => Ok(()),
    }
}

/// The error about a server that removes keys by this policy when it is full.
pub fn forgetful(policy: &str) -> Error {
    let problem =
        format!("the server makes room by forgetting keys (maxmemory-policy {policy}), locks too");
    refused(problem, Check::Eviction, NEVER_FORGET)
}

/// The error about a user without rights that locks need. `what` has the commands, and the words of
/// the server.
pub fn lacking(what: &str) -> Error {
    let problem = format!("{LACKS}: {what}");
    let remedy = format!("{SHOWN_RIGHTS}; or unsafe={} to go without", Check::Rights.name());
    Error::new(ErrorKind::Denied, problem).with_remedy(remedy)
}

fn refused(problem: impl Into<String>, check: Check, remedy: &str) -> Error {
    let remedy = format!("{remedy}; or unsafe={} to go without this check", check.name());
    Error::new(ErrorKind::Unsupported, problem).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n";

    fn changed(from: &str, to: &str) -> Info {
        Info::parse(&GOOD.replace(from, to))
    }

    #[test]
    fn a_good_server_is_used() {
        assert!(refuse(&Info::parse(GOOD), &[]).is_ok());
        assert!(refuse(&changed("7.0.15", "6.2.0"), &[]).is_ok());
        assert!(refuse(&changed("7.0.15", "10.0.0"), &[]).is_ok());
    }

    #[test]
    fn what_forgets_locks_is_refused_with_the_remedy_unless_that_is_waived() {
        for (check, from, to, remedy) in [
            (Check::Version, "7.0.15", "6.0.16", "newer"),
            (
                Check::Replica,
                "role:master",
                "role:slave\r\nmaster_host:h\r\nmaster_port:1",
                "its master, h:1",
            ),
            (Check::Eviction, "noeviction", "allkeys-lru", "maxmemory-policy noeviction"),
        ] {
            let error = refuse(&changed(from, to), &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let message = error.remedy().unwrap();
            assert!(
                message.contains(remedy) && message.contains(&format!("unsafe={}", check.name())),
                "{message}"
            );
            assert!(refuse(&changed(from, to), &[check]).is_ok(), "{check:?}");
            let others: Vec<_> = Check::ALL.into_iter().filter(|other| *other != check).collect();
            assert!(refuse(&changed(from, to), &others).is_err(), "{check:?}");
        }
    }

    #[test]
    fn every_check_has_its_name() {
        assert!(Check::ALL.iter().all(|check| Check::from_name(check.name()) == Some(*check)));
    }
}
