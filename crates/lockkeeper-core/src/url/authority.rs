//! The part that may have a password: `[user[:pw]@]host[:port][,host[:port]…]`. No error repeats
//! any piece of this part but a wrong port.

use std::net::Ipv6Addr;

use super::parse::decode;
use super::{Host, StoreUrl};
use crate::{Error, Result, Secret};

pub(super) fn read(authority: &str, url: &mut StoreUrl) -> Result<()> {
    let hosts = match authority.split_once('@') {
        None => authority,
        Some((_, hosts)) if hosts.contains('@') => {
            // The user may mean a password with an @, or credentials for each of several hosts.
            return Err(Error::invalid("the URL of the store has more than one @").with_remedy(
                "%40 for an @ in the user or the password; all hosts share these two",
            ));
        }
        Some((credentials, hosts)) => {
            let (user, password) = match credentials.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (credentials, None),
            };
            url.user = Some(decode(user, "the user")?.into_owned()).filter(|user| !user.is_empty());
            let password = decode(password.unwrap_or_default(), "the password")?;
            url.password = Some(Secret::new(password)).filter(|password| !password.is_empty());
            hosts
        }
    };
    url.hosts =
        hosts.split(',').enumerate().map(|(i, text)| host(text, i + 1)).collect::<Result<_>>()?;
    Ok(())
}

/// An error names a host by its place in the list: unreadable text may be a password without its
/// `@`.
pub(super) fn host(text: &str, place: usize) -> Result<Host> {
    let invalid =
        |problem: &str| Error::invalid(format!("host {place} of the store's URL {problem}"));
    let (name, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, after))) if address.parse::<Ipv6Addr>().is_ok() => {
            let port = if after.is_empty() { None } else { after.strip_prefix(':').or(Some("")) };
            (address, port)
        }
        Some(_) => return Err(invalid("is not an IPv6 address in brackets").with_remedy("[::1]")),
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(
                    invalid("has more than one colon").with_remedy("[…] around an IPv6 address")
                );
            }
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return Err(invalid("is empty").with_remedy("localhost, or the name of the store's host"));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || ".-_:".contains(c)) {
        return Err(invalid("contains a character that a host name cannot have")
            .with_remedy("letters, digits, - and dots"));
    }
    let port = match port {
        None => None,
        Some(digits) => Some(read_port(digits).ok_or_else(|| {
            invalid(&wrong_port(digits)).with_remedy("HOST:PORT, or HOST for the usual port")
        })?),
    };
    Ok(Host { name: name.to_owned(), port })
}

/// Up to five digits are shown, as those of a valid port would be. Any other text may be a
/// password.
fn wrong_port(text: &str) -> String {
    if (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        return format!("has the port {text}, and a port is a number from 1 to 65535");
    }
    "has a port that is not a number from 1 to 65535".to_owned()
}

fn read_port(digits: &str) -> Option<u16> {
    let only_digits = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&port| only_digits && port != 0)
}
