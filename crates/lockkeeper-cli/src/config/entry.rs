//! One store of the configuration file.

use std::path::{Path, PathBuf};

use lockkeeper::Secret;
use lockkeeper::url::StoreUrl;

use crate::exit::Failure;
use crate::secrets;

/// An entry of `[stores]`, checked as far as that is possible without opening anything.
#[derive(Debug)]
pub(crate) struct Entry {
    /// File and line, for errors.
    pub(super) place: String,
    pub(super) address: Address,
    pub(super) password: Option<Source>,
    pub(super) api_token: Option<Source>,
}

/// Where the store is.
#[derive(Debug)]
pub(crate) enum Address {
    /// With what else the entry sets.
    Url(Box<StoreUrl>),
    /// The nodes of a Redlock.
    Nodes,
}

/// Where a secret is to be had.
#[derive(Debug)]
pub(super) enum Source {
    Text(Secret),
    File(PathBuf),
}

impl Source {
    fn get(&self, key: &str) -> Result<Secret, Failure> {
        match self {
            Self::Text(secret) => Ok(secret.clone()),
            Self::File(path) => secrets::read_file(&format!("{key}_file"), path),
        }
    }
}

impl Entry {
    /// The URL with its secrets, but for those that the environment replaces.
    pub(crate) fn url(&self, replaced: &secrets::Secrets) -> Result<StoreUrl, Failure> {
        let Address::Url(url) = &self.address else {
            return Err(Failure::config(format!(
                "{}: this version of lockkeeper does not have Redlock, a lock on several nodes. Try: url with one store",
                self.place
            )));
        };
        let at_place = |failure: Failure| Failure::config(format!("{}: {}", self.place, failure.message));
        let mut url = (**url).clone();
        if let Some(password) = self.password.as_ref().filter(|_| replaced.password.is_none()) {
            url = url.with_password(password.get("password").map_err(at_place)?);
        }
        if let Some(token) = self.api_token.as_ref().filter(|_| replaced.api_token.is_none()) {
            url = url.with_api_token(token.get("api_token").map_err(at_place)?);
        }
        Ok(url)
    }

    pub(super) fn has_secrets(&self) -> bool {
        [&self.password, &self.api_token].iter().any(|source| matches!(source, Some(Source::Text(_))))
    }
}

/// A path as the file has it: below the home for `~/`, else relative to the folder of the file, so that it means the
/// same wherever the program is started.
pub(super) fn path(text: &str, config: &Path, home: Option<&str>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Path::new(home).join(below),
        _ => config.parent().unwrap_or(Path::new("")).join(text),
    }
}
