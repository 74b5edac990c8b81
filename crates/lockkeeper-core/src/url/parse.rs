//! From text to [`StoreUrl`].

use std::borrow::Cow;

use super::syntax::UrlForm;
use super::{StoreUrl, authority, params, scheme};
use crate::{Error, Result};

/// `home` replaces `~/`.
pub(super) fn parse(text: &str, home: Option<&str>) -> Result<StoreUrl> {
    if text.chars().any(char::is_control) {
        return Err(Error::invalid("the URL of the store contains a control character")
            .with_remedy("one line without tabs"));
    }
    let ((scheme, form), rest) = split_scheme(text)?;
    let mut url = StoreUrl {
        scheme,
        user: None,
        password: None,
        hosts: Vec::new(),
        path: String::new(),
        common: Default::default(),
        params: Default::default(),
    };
    let query = match form {
        UrlForm::Alone => alone(rest, scheme)?,
        UrlForm::Path => file(rest, home, &mut url)?,
        UrlForm::Hosts => network(rest, &mut url)?,
    };
    params::read(query, &mut url)?;
    Ok(url)
}

/// The known scheme and the text after its colon. An error repeats an unknown scheme only if it
/// cannot be a part of a user and a password.
fn split_scheme(text: &str) -> Result<((&'static str, UrlForm), &str)> {
    let Some((name, rest)) = text.split_once(':') else {
        return Err(
            Error::invalid("the URL of the store has no scheme").with_remedy(scheme::examples())
        );
    };
    if let Some(known) = scheme::find(name) {
        return Ok((known, rest));
    }
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let error = if plain && rest.starts_with("//") && name.len() <= 20 {
        Error::invalid(format!("{name}:// is not the scheme of a store"))
    } else {
        Error::invalid("the URL of the store does not begin with the scheme of a store")
    };
    Err(error.with_remedy(scheme::suggestion(name)))
}

fn alone<'a>(rest: &'a str, scheme: &str) -> Result<&'a str> {
    let (path, query) = split_query(rest);
    if path.is_empty() {
        return Ok(query);
    }
    Err(Error::invalid(format!("{scheme}: has neither a host nor a path"))
        .with_remedy(format!("{scheme}: alone")))
}

fn file<'a>(rest: &'a str, home: Option<&str>, url: &mut StoreUrl) -> Result<&'a str> {
    let scheme = url.scheme;
    let (path, query) = split_query(rest);
    let path = match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            return Err(Error::invalid(format!("{scheme}: has no host"))
                .with_remedy(format!("{scheme}:PATH or {scheme}:///PATH")));
        }
        None => path,
    };
    let path = decode(path, "the path")?;
    url.path = match (path.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => format!("{}/{below}", home.trim_end_matches('/')),
        (Some(_), None) => {
            let error = Error::invalid(
                "the path of the file begins with ~/, and HOME is not set or is not an absolute path",
            );
            return Err(error.with_remedy("an absolute path"));
        }
        (None, _) if path.is_empty() || path == "~" => {
            return Err(Error::invalid(format!("{scheme}: needs the path of a file"))
                .with_remedy(format!("{scheme}:./locks.db")));
        }
        (None, _) => path.into_owned(),
    };
    Ok(query)
}

fn network<'a>(rest: &'a str, url: &mut StoreUrl) -> Result<&'a str> {
    let scheme = url.scheme;
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(Error::invalid(format!("after {scheme}: two slashes and a host are missing"))
            .with_remedy(format!("{scheme}://HOST")));
    };
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if after.contains(['@', '#']) {
        // Most likely the password has a bare `/`, `?` or `#`, and the authority has only its first
        // piece.
        return Err(Error::invalid("the URL of the store has a bare @ or # after its host")
            .with_remedy("in a password, %2F for /, %3F for ?, %23 for #, %40 for @"));
    }
    authority::read(authority, url)?;
    let (path, query) = split_query(after);
    url.path = decode(path, "the path")?.into_owned();
    Ok(query)
}

/// The text before the first `?`, and the text after it.
fn split_query(text: &str) -> (&str, &str) {
    text.split_once('?').unwrap_or((text, ""))
}

/// The text without its %-encoding. An error has the name `what`, and not the text.
pub(super) fn decode<'a>(text: &'a str, what: &str) -> Result<Cow<'a, str>> {
    let invalid = |problem: &str| Error::invalid(format!("{what} of the store's URL {problem}"));
    let is_hex = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    if text.match_indices('%').any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2)) {
        return Err(
            invalid("has a % without two hexadecimal digits").with_remedy("%25 for a % itself")
        );
    }
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    match decoded {
        Ok(decoded) if decoded.chars().any(char::is_control) => {
            Err(invalid("contains a control character").with_remedy("text of one line"))
        }
        Ok(decoded) => Ok(decoded),
        Err(_) => Err(invalid("is not UTF-8 when decoded").with_remedy("%C3%A4 for an ä")),
    }
}
