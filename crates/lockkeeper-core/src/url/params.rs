//! The parameters behind the `?`.

use std::collections::HashSet;

use super::parse::decode;
use super::{CommonParams, StoreUrl, UrlSyntax, nearest};
use crate::duration::parse_duration;
use crate::name::shown;
use crate::{Error, FencingToken, LockName, Result};

const COMMON: [&str; 5] = CommonParams::NAMES;

/// Returns whether the value of a parameter is hidden, as its name suggests.
pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "auth", "credential"].iter().any(|word| key.contains(word))
}

pub(super) fn read(query: &str, url: &mut StoreUrl) -> Result<()> {
    let mut seen = HashSet::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Error::invalid("a parameter of the store's URL has no value")
                .with_remedy("NAME=VALUE"));
        };
        let key = decode(key, "the name of a parameter")?;
        let value = decode(value, "the value of a parameter")?;
        if COMMON.contains(&&*key) {
            common(&key, &value, &mut url.common).map_err(|wrong| wrong.in_a_url(&key, &value))?;
        } else {
            url.params.insert(key.to_string(), value.into_owned());
        }
        if !seen.insert(key.to_string()) {
            let error =
                Error::invalid(format!("{} is given twice in the store's URL", shown(&key)));
            return Err(error.with_remedy("one of them"));
        }
    }
    Ok(())
}

/// Sets a common parameter that is not set.
pub(super) fn fill(key: &str, value: &str, url: &mut StoreUrl) -> Result<()> {
    if !COMMON.contains(&key) {
        let error = Error::invalid(format!("{} is not a parameter of all stores", shown(key)));
        return Err(error.with_remedy(suggestion(key, COMMON)));
    }
    let mut given = CommonParams::default();
    common(key, value, &mut given).map_err(|wrong| wrong.elsewhere(key))?;
    let own = &mut url.common;
    own.prefix = own.prefix.take().or(given.prefix);
    own.epoch = own.epoch.or(given.epoch);
    own.ttl = own.ttl.or(given.ttl);
    own.max_waiters = own.max_waiters.or(given.max_waiters);
    if own.unsafe_checks.is_empty() {
        own.unsafe_checks = given.unsafe_checks;
    }
    Ok(())
}

impl UrlSyntax {
    /// Refuses a parameter that URLs of this scheme do not take.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid), with the parameter that was most likely meant.
    pub fn check_params(&self, url: &StoreUrl) -> Result<()> {
        let own = self.params_of(url.scheme);
        let Some(key) = url.params.keys().find(|key| !own.contains(&key.as_str())) else {
            return Ok(());
        };
        let scheme = url.scheme;
        let error = Error::invalid(format!("{} is not a parameter of {scheme}: URLs", shown(key)));
        Err(error.with_remedy(suggestion(key, COMMON.iter().chain(&own).copied())))
    }

    /// Refuses a parameter that URLs of this scheme do not take, and an `unsafe=` with a check that
    /// the store does not have.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid), with the name that was most likely meant.
    pub fn check(&self, url: &StoreUrl) -> Result<()> {
        self.check_params(url)?;
        let checks = self.checks;
        let Some(unknown) =
            url.common.unsafe_checks.iter().find(|check| !checks.contains(&check.as_str()))
        else {
            return Ok(());
        };
        let error = Error::invalid(format!(
            "{url}: there is no check {unknown:?} that unsafe= could waive"
        ));
        Err(match nearest(unknown, checks.iter().copied()) {
            Some(near) => error.with_remedy(format!("unsafe={near}")),
            None if checks.is_empty() => error.with_remedy("the URL without unsafe="),
            None => error.with_remedy(format!("one of {}", checks.join(", "))),
        })
    }
}

fn suggestion(key: &str, valid: impl IntoIterator<Item = &'static str> + Clone) -> String {
    match nearest(key, valid.clone()) {
        Some(meant) => format!("{meant}="),
        None => format!("one of {}", valid.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// What a value has to be, and an example.
struct Wrong(&'static str, &'static str);

impl Wrong {
    fn in_a_url(&self, key: &str, value: &str) -> Error {
        let Self(range, example) = self;
        let value = shown(value);
        Error::invalid(format!("{key}= of the store's URL must be {range}, and is {value}"))
            .with_remedy(format!("{key}={example}"))
    }

    /// Without the value: in another place, it may be a secret that is in the wrong line.
    fn elsewhere(&self, key: &str) -> Error {
        let Self(range, example) = self;
        Error::invalid(format!("{key} must be {range}")).with_remedy(*example)
    }
}

fn common(key: &str, value: &str, common: &mut CommonParams) -> std::result::Result<(), Wrong> {
    match key {
        "prefix" if value.len() < LockName::MAX_LEN => common.prefix = Some(value.to_owned()),
        "prefix" => return Err(Wrong("shorter than 255 bytes", "billing/")),
        "epoch" => {
            let epoch = number(value).filter(|epoch| *epoch <= u32::from(FencingToken::MAX_EPOCH));
            let epoch = epoch.and_then(|epoch| u16::try_from(epoch).ok());
            common.epoch = Some(epoch.ok_or(Wrong("a number from 0 to 511", "1"))?);
        }
        "ttl" => {
            let ttl = parse_duration(value).ok().filter(|ttl| !ttl.is_zero());
            let wrong = Wrong("a duration above 0, like 500ms, 30s, 5m, 1h30m or 7d", "30s");
            common.ttl = Some(ttl.ok_or(wrong)?);
        }
        "max-waiters" => {
            common.max_waiters = Some(number(value).ok_or(Wrong("a number below 2^32", "1000"))?)
        }
        _ => {
            let wrong = Wrong("names of checks, separated by commas", "NAME,NAME");
            common.unsafe_checks = checks(value).ok_or(wrong)?
        }
    }
    Ok(())
}

fn number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn checks(list: &str) -> Option<Vec<String>> {
    let is_name = |check: &str| {
        !check.is_empty()
            && check.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    list.split(',').map(|check| is_name(check).then(|| check.to_owned())).collect()
}
