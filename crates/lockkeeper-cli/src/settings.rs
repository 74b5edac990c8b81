//! The settings after flags, environment, configuration and defaults were merged: the flag comes
//! before the environment, the environment before the URL, the URL before the configuration, and
//! the configuration before the default. One replaces the other.

mod store;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper::LockName;

pub(crate) use self::store::{Origin, Store};
use crate::args::Global;
use crate::config::Config;
use crate::exit::Failure;
use crate::hand_down;
use crate::output::{Verbosity, shown};
use crate::reach;
use crate::variables::{Environment, text};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest owner that the library takes, in bytes.
const OWNER_MAX: usize = 255;

/// The settings of one invocation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    /// `None` leaves the prefix to the URL.
    pub(crate) prefix: Option<String>,
    pub(crate) owner: String,
    pub(crate) connect_timeout: Duration,
    /// Whether the folder of a file store may be made.
    pub(crate) create: bool,
    pub(crate) json: bool,
    pub(crate) verbosity: Verbosity,
    /// The filter for the library's log.
    pub(crate) log: Option<String>,
    /// The configuration that was read.
    pub(crate) config: Option<PathBuf>,
    /// Variables for a command, so that a lockkeeper inside the command uses the same store.
    pub(crate) handed_down: Vec<(&'static str, String)>,
}

impl Settings {
    pub(crate) fn resolve(global: &Global, environment: Environment<'_>) -> Result<Self, Failure> {
        let (verbosity, log) = log(global, text(environment, "LOCKKEEPER_LOG")?);
        let config = Config::load(global.config.as_deref(), environment)?;
        Ok(Self {
            store: Store::resolve(global.store.as_deref(), &config, environment)?,
            prefix: prefix(global.name_prefix.as_ref(), environment)?,
            owner: owner(global.owner.as_ref(), &config, environment)?,
            connect_timeout: global
                .connect_timeout
                .or(config.connect_timeout)
                .unwrap_or(CONNECT_TIMEOUT),
            create: global.create,
            json: global.json,
            verbosity,
            log,
            config: config.path().map(Path::to_owned),
            handed_down: hand_down::variables(global),
        })
    }

    /// The text before every NAME in the store: the option or the variable, else the prefix of the
    /// URL.
    pub(crate) fn name_prefix(&self) -> &str {
        self.prefix.as_ref().or(self.store.url.common.prefix.as_ref()).map_or("", String::as_str)
    }

    /// Refuses a memory store, for commands that need other clients in the store.
    pub(crate) fn refuse_memory(&self) -> Result<(), Failure> {
        if self.store.url.scheme != "memory" {
            return Ok(());
        }
        Err(Failure::config("memory: would lock this one process only. Try: file:./locks.db"))
    }

    /// Refuses the default store, for candidates of an election: without a shared store, every
    /// candidate would lead.
    pub(crate) fn refuse_default(&self) -> Result<(), Failure> {
        let Store { url, origin: Origin::Default, .. } = &self.store else { return Ok(()) };
        let reach = reach::of(Path::new(&url.path));
        Err(Failure::config(format!(
            "no store configured; an election would hold {reach}, and candidates elsewhere would lead as well. \
             Try: --store URL, or --store {url} to use that file"
        )))
    }

    /// Refuses a file store in a missing folder. The path was most likely mistyped, and no other
    /// client locks in a store that is made there.
    pub(crate) fn refuse_missing_folder(&self) -> Result<(), Failure> {
        let Store { url, origin, .. } = &self.store;
        let is_ours = url.scheme != "file" || self.create || *origin == Origin::Default;
        let folder =
            Path::new(&url.path).parent().filter(|folder| !is_ours && *folder != Path::new(""));
        match folder {
            Some(folder) if matches!(folder.try_exists(), Ok(false)) => {
                Err(Failure::config(format!(
                    "{url}: the folder {} does not exist. Try: the right path, or --create, which makes it",
                    folder.display()
                )))
            }
            _ => Ok(()),
        }
    }

    /// The messages that have to come once, before the first use of the store.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        let warning = self.store.warning.clone().filter(|_| self.verbosity >= Verbosity::Warnings);
        self.notice().into_iter().chain(warning)
    }

    /// The message about the place of the locks, if there is one.
    fn notice(&self) -> Option<String> {
        let Store { url, origin, .. } = &self.store;
        let path = Some(&url.path)
            .filter(|_| self.verbosity >= Verbosity::Warnings && url.scheme == "file")?;
        match origin {
            Origin::Default => {
                let reach = reach::of(Path::new(path));
                Some(format!("no store configured; this lock holds {reach} (file:{path})"))
            }
            Origin::Config(config) if !path.starts_with('/') => Some(format!(
                "{}: file:{path} is another store in every working directory. Try: an absolute path",
                config.display()
            )),
            _ => None,
        }
    }
}

/// -q, -v and -vv are short for filters; they replace the variable.
fn log(global: &Global, variable: Option<String>) -> (Verbosity, Option<String>) {
    let filter = |level: &str| Some(format!("lockkeeper={level}"));
    match (global.quiet, global.verbose, variable) {
        (true, ..) => (Verbosity::Errors, None),
        (_, 1, _) => (Verbosity::Info, filter("info")),
        (_, 2.., _) => (Verbosity::Debug, filter("trace")),
        (_, 0, None) => (Verbosity::Warnings, None),
        (_, 0, Some(value)) => (named_verbosity(&value), Some(value)),
    }
}

fn named_verbosity(value: &str) -> Verbosity {
    match value.to_ascii_lowercase().as_str() {
        "off" | "error" => Verbosity::Errors,
        "info" => Verbosity::Info,
        "debug" | "trace" => Verbosity::Debug,
        _ => Verbosity::Warnings,
    }
}

/// A bad flag is an error of usage; other errors of a prefix are found when the store is opened.
fn prefix(flag: Option<&String>, environment: Environment<'_>) -> Result<Option<String>, Failure> {
    if let Some(prefix) = flag.filter(|prefix| LockName::new(&format!("{prefix}a")).is_err()) {
        let shown = shown(prefix);
        let most = LockName::MAX_LEN - 1;
        return Err(Failure::usage(format!(
            "--prefix {shown} cannot stand before a NAME. Try: one of at most {most} bytes without control characters"
        )));
    }
    or_variable(flag, environment, "LOCKKEEPER_PREFIX")
}

fn owner(
    flag: Option<&String>,
    config: &Config,
    environment: Environment<'_>,
) -> Result<String, Failure> {
    let owner = or_variable(flag, environment, "LOCKKEEPER_OWNER")?;
    let Some(owner) = owner.or_else(|| config.owner.clone()) else {
        return Ok(default_owner(environment));
    };
    let problem = if owner.is_empty() {
        "the owner is empty, as where a variable is missing. Try: a text, or no owner".to_owned()
    } else {
        format!("the owner has {} bytes. Try: at most {OWNER_MAX}", owner.len())
    };
    match flag {
        _ if (1..=OWNER_MAX).contains(&owner.len()) => Ok(owner),
        Some(_) => Err(Failure::usage(problem)),
        None => Err(Failure::config(problem)),
    }
}

fn default_owner(environment: Environment<'_>) -> String {
    let named = |name| environment(name).and_then(|user| user.into_string().ok());
    let user = named("USER").or_else(|| named("LOGNAME"));
    let user = user.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string());
    let system = rustix::system::uname();
    format!("{user}@{}:{}", system.nodename().to_string_lossy(), std::process::id())
}

fn or_variable(
    flag: Option<&String>,
    environment: Environment<'_>,
    name: &str,
) -> Result<Option<String>, Failure> {
    match flag {
        Some(value) => Ok(Some(value.clone())),
        None => text(environment, name),
    }
}

#[cfg(test)]
mod tests;
