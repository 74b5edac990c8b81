//! The text of a [`StoreUrl`], without secrets.

use std::fmt::{self, Write};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::params::is_secret;
use super::{CommonParams, StoreUrl};
use crate::duration::format_duration;

/// Characters that end a path or have another meaning in it.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b'@').add(b'"').add(b'<').add(b'>');
const VALUE: &AsciiSet = &PATH.add(b'&');
const KEY: &AsciiSet = &VALUE.add(b'=');
const USER: &AsciiSet = &PATH.add(b'/').add(b':').add(b',').add(b'[').add(b']');

pub(super) fn url(url: &StoreUrl, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}:", url.scheme)?;
    if !url.hosts.is_empty() {
        authority(url, f)?;
    } else if url.path.starts_with("//") {
        // The path alone would be read as a host.
        f.write_str("//")?;
    }
    write!(f, "{}", utf8_percent_encode(&url.path, PATH))?;
    let mut separator = '?';
    for (key, value) in common(&url.common).iter().map(|(key, value)| (*key, value)) {
        pair(&mut separator, key, value, f)?;
    }
    for (key, value) in &url.params {
        pair(&mut separator, key, if is_secret(key) { "***" } else { value }, f)?;
    }
    Ok(())
}

fn authority(url: &StoreUrl, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("//")?;
    if let Some(user) = &url.user {
        write!(f, "{}", utf8_percent_encode(user, USER))?;
    }
    if url.password.is_some() {
        f.write_str(":***")?;
    }
    if url.user.is_some() || url.password.is_some() {
        f.write_char('@')?;
    }
    for (i, host) in url.hosts.iter().enumerate() {
        write!(f, "{}{host}", if i == 0 { "" } else { "," })?;
    }
    Ok(())
}

fn common(params: &CommonParams) -> Vec<(&'static str, String)> {
    let CommonParams { prefix, epoch, ttl, max_waiters, unsafe_checks, open_within: _ } = params;
    let checks = (!unsafe_checks.is_empty()).then(|| unsafe_checks.join(","));
    let all = [
        ("prefix", prefix.clone()),
        ("epoch", epoch.map(|epoch| epoch.to_string())),
        ("ttl", ttl.map(format_duration)),
        ("max-waiters", max_waiters.map(|n| n.to_string())),
        ("unsafe", checks),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn pair(separator: &mut char, key: &str, value: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let before = std::mem::replace(separator, '&');
    write!(f, "{before}{}={}", utf8_percent_encode(key, KEY), utf8_percent_encode(value, VALUE))
}
