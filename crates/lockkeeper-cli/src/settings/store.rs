//! The store of one invocation, and the source that names it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::url::StoreUrl;

use crate::child::environment::RUN_ID;
use crate::config::{self, Config};
use crate::exit::Failure;
use crate::output::has_password;
use crate::secrets::Secrets;
use crate::variables::{Environment, not_unicode, text};

const TTL: Duration = Duration::from_secs(30);
const STORE: &str = "LOCKKEEPER_STORE";
const REQUIRE: &str = "LOCKKEEPER_REQUIRE_STORE";

/// The store, and how the invocation uses it.
#[derive(Debug)]
pub(crate) struct Store {
    /// The URL with its secrets, which it does not show.
    pub(crate) url: StoreUrl,
    /// How long a lock outlives its holder, unless a flag says otherwise.
    pub(crate) ttl: Duration,
    pub(crate) origin: Origin,
    /// A warning about the file of the password.
    pub(super) warning: Option<String>,
}

/// The source that names the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable,
    Config(PathBuf),
    /// No source names a store.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("--store"),
            Self::Variable => f.write_str(STORE),
            Self::Config(path) => write!(f, "default_store of {}", path.display()),
            Self::Default => f.write_str("the default: no store is configured"),
        }
    }
}

impl Store {
    pub(super) fn resolve(
        flag: Option<&str>,
        config: &Config,
        environment: Environment<'_>,
    ) -> Result<Self, Failure> {
        if flag.is_some_and(has_password) {
            return Err(Failure::usage(
                "--store contains a password, which every user of this machine can see. Try: LOCKKEEPER_PASSWORD, \
                 LOCKKEEPER_PASSWORD_FILE, or the URL in LOCKKEEPER_STORE",
            ));
        }
        if flag.is_some_and(str::is_empty) {
            return Err(Failure::config(
                "--store is empty, as where a variable is missing. Try: --store URL",
            ));
        }
        if flag.is_none() && environment(STORE).is_some_and(|store| store.is_empty()) {
            return Err(Failure::config(format!(
                "{STORE} is empty, as where a secret is missing. Try: {STORE}=URL, --store URL, or unset {STORE}"
            )));
        }
        let mut secrets = Secrets::resolve(environment)?;
        let variable = text(environment, STORE)?;
        let of_config = || config.default_store.as_deref().zip(config.path());
        let (text, origin) = if let Some(flag) = flag {
            (flag, Origin::Flag)
        } else if let Some(variable) = &variable {
            (variable.as_str(), Origin::Variable)
        } else if let Some((store, path)) = of_config() {
            (store, Origin::Config(path.to_owned()))
        } else {
            return Self::default_file(config, environment);
        };
        let url = if text.contains(':') {
            config::url(text).map_err(|error| Failure::config(format!("{origin}: {error}")))?
        } else {
            config.store(text, &origin.to_string())?.url(&mut secrets)?
        };
        let warning = secrets.warning.take();
        Ok(Self { warning, ..Self::new(secrets.put_into(url), origin) })
    }

    fn new(url: StoreUrl, origin: Origin) -> Self {
        Self { ttl: url.common.ttl.unwrap_or(TTL), url, origin, warning: None }
    }

    fn default_file(config: &Config, environment: Environment<'_>) -> Result<Self, Failure> {
        if was_kept_by_a_run(environment) {
            return Err(Failure::config(
                "no store configured: the lockkeeper run around this command keeps a URL with a password to itself. \
                 Try: run --pass-credentials, or the store in the configuration",
            ));
        }
        if let (Some(name), Some(path)) = (config.first_store(), config.path()) {
            return Err(Failure::config(format!(
                "no store chosen: {} names stores, and no default_store. Try: --store {name}, or default_store = \
                 {name:?} there",
                path.display()
            )));
        }
        if let Some(who) = required(config, environment)? {
            return Err(Failure::config(format!(
                "no store configured, and {who} forbids the default. Try: --store URL, or {STORE}"
            )));
        }
        let path = state_directory(rustix::process::geteuid().is_root(), environment)?
            .join("lockkeeper/locks.db");
        let text = path.to_str().ok_or_else(|| not_unicode("the path of the default store"))?;
        let url = format!("file:{}", escaped(text)).parse().map_err(Failure::config)?;
        Ok(Self::new(url, Origin::Default))
    }
}

/// Returns whether a run around this process has taken the store out of the environment: then it
/// has set the variable that requires a store.
fn was_kept_by_a_run(environment: Environment<'_>) -> bool {
    environment(RUN_ID).is_some() && environment(REQUIRE).is_some_and(|value| value == "1")
}

/// The option or variable that requires a store, if there is one.
fn required(config: &Config, environment: Environment<'_>) -> Result<Option<String>, Failure> {
    Ok(match (text(environment, REQUIRE)?, config.path()) {
        (Some(value), _) => (!is_no(&value)).then(|| REQUIRE.to_owned()),
        (None, Some(path)) if config.require_store == Some(true) => {
            Some(format!("require_store of {}", path.display()))
        }
        (None, _) => None,
    })
}

/// Every value that is not clearly a no is a yes, which is the safe side.
fn is_no(value: &str) -> bool {
    ["0", "false", "no", "off"].iter().any(|no| no.eq_ignore_ascii_case(value))
}

fn state_directory(is_root: bool, environment: Environment<'_>) -> Result<PathBuf, Failure> {
    if is_root {
        return Ok("/var/lib".into());
    }
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state"))).ok_or_else(|| {
        Failure::config("no store configured, and HOME is no absolute path for the default file. Try: --store URL")
    })
}

/// The path, with the characters that have a meaning in a URL escaped.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn the_default_store_is_a_file_of_this_host() {
        let environment = |variables: &'static [(&str, &str)]| {
            move |name: &str| {
                variables
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            }
        };
        let of_user = |variables| {
            state_directory(false, &environment(variables)).map_err(|failure| failure.exit)
        };
        assert_eq!(of_user(&[("HOME", "/home/me")]), Ok("/home/me/.local/state".into()));
        assert_eq!(of_user(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "/s")]), Ok("/s".into()));
        assert_eq!(
            of_user(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "s")]),
            Ok("/home/me/.local/state".into())
        );
        assert_eq!(of_user(&[]), Err(Exit::Config));
        assert_eq!(state_directory(true, &environment(&[])).ok(), Some("/var/lib".into()));
        assert_eq!(escaped("/a?b%"), "/a%3Fb%25");
    }
}
