//! One store of the configuration file.

use std::path::{Path, PathBuf};

use lockkeeper::url::StoreUrl;
use lockkeeper::{Keeper, Secret};

use crate::exit::Failure;
use crate::secrets::{self, Secrets};

/// An entry of `[stores]`, checked as far as possible without opening the store.
#[derive(Debug)]
pub(crate) struct Entry {
    /// File and line, for errors.
    pub(super) location: String,
    pub(super) address: Address,
    pub(super) password: Option<Source>,
}

/// Where the store is.
#[derive(Debug)]
pub(crate) enum Address {
    /// A URL with the other settings of the entry.
    Url(Box<StoreUrl>),
    /// The nodes of a Redlock.
    Nodes,
}

/// The place of a secret.
#[derive(Debug)]
pub(super) enum Source {
    Text(Secret),
    File(PathBuf),
}

impl Source {
    fn password(&self) -> Result<Secrets, Failure> {
        match self {
            Self::Text(secret) => Ok(Secrets { password: Some(secret.clone()), warning: None }),
            Self::File(path) => secrets::read_file("password_file", path),
        }
    }
}

impl Entry {
    /// The URL. The entry's own secrets count unless the environment has given secrets.
    pub(crate) fn url(&self, secrets: &mut Secrets) -> Result<StoreUrl, Failure> {
        let Address::Url(url) = &self.address else {
            return Err(Failure::config(format!(
                "{}: a Redlock has one URL, and not a list of nodes. Try: url = \"redlock://HOST,HOST,HOST\", with users= and passwords= if the logins differ",
                self.location
            )));
        };
        let at_location =
            |failure: Failure| Failure::config(format!("{}: {}", self.location, failure.message));
        if let Some(password) = self.password.as_ref().filter(|_| secrets.password.is_none()) {
            let Secrets { password, warning } = password.password().map_err(at_location)?;
            let warning = warning.map(|warning| format!("{}: {warning}", self.location));
            *secrets = Secrets { password, warning };
        }
        Ok((**url).clone())
    }

    pub(super) fn has_secrets(&self) -> bool {
        matches!(self.password, Some(Source::Text(_)))
    }
}

/// Reads the URL of a store, and checks that this store takes its parameters.
pub(crate) fn url(text: &str) -> lockkeeper::Result<StoreUrl> {
    let url: StoreUrl = text.parse()?;
    Keeper::from_url(&url).map(|_| url)
}

/// A path of the file: below the home for `~/`, else relative to the folder of the file. So the
/// path means the same wherever the program is started.
pub(super) fn path(text: &str, config: &Path, home: Option<&str>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Path::new(home).join(below),
        _ => config.parent().unwrap_or(Path::new("")).join(text),
    }
}
