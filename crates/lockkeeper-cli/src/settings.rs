//! What holds after flags, environment and defaults were weighed: the flag before the environment before the URL
//! before the default, one replacing the other.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::url::StoreUrl;

use crate::args::Global;
use crate::exit::Failure;
use crate::output::{Verbosity, has_password};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest owner that the library takes, in bytes.
const OWNER_MAX: usize = 255;
const TTL: Duration = Duration::from_secs(30);

/// The environment, or a test's idea of it. An empty variable counts as one that is not set.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The settings of one invocation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) store: Store,
    /// `None` leaves it to the URL.
    pub(crate) prefix: Option<String>,
    pub(crate) owner: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) json: bool,
    pub(crate) verbosity: Verbosity,
    /// A filter for what the library logs.
    pub(crate) log: Option<String>,
}

/// Where the locks are kept. Debug does not show the URL, which may hold a password.
pub(crate) struct Store {
    pub(crate) url: String,
    /// How long a lock outlives its holder, unless a flag says otherwise.
    pub(crate) ttl: Duration,
    /// The file that is used because nobody said anything.
    default: Option<PathBuf>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("default", &self.default).finish_non_exhaustive()
    }
}

impl Settings {
    pub(crate) fn resolve(global: &Global, environment: Environment<'_>) -> Result<Self, Failure> {
        let (verbosity, log) = log(global, text(environment, "LOCKKEEPER_LOG")?);
        Ok(Self {
            store: Store::resolve(global.store.as_deref(), environment)?,
            prefix: or_variable(global.name_prefix.as_ref(), environment, "LOCKKEEPER_PREFIX")?,
            owner: owner(global.owner.as_ref(), environment)?,
            connect_timeout: global.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            json: global.json,
            verbosity,
            log,
        })
    }

    /// What has to be said once, before the store is used.
    pub(crate) fn notice(&self) -> Option<String> {
        let path = self.store.default.as_ref().filter(|_| self.verbosity >= Verbosity::Warnings)?;
        Some(format!("no store configured; this lock holds on this host only (file:{})", path.display()))
    }
}

impl Store {
    fn resolve(flag: Option<&str>, environment: Environment<'_>) -> Result<Self, Failure> {
        if let Some(url) = flag {
            if has_password(url) {
                return Err(Failure::usage(
                    "--store contains a password, which every user of this machine can see. Try: LOCKKEEPER_PASSWORD, \
                     LOCKKEEPER_PASSWORD_FILE, or the URL in LOCKKEEPER_STORE",
                ));
            }
            return Self::given(url.to_owned());
        }
        match text(environment, "LOCKKEEPER_STORE")? {
            Some(url) => Self::given(url),
            None => Self::default_file(environment),
        }
    }

    fn given(url: String) -> Result<Self, Failure> {
        if !url.contains(':') {
            return Err(Failure::config(format!("{url:?} is not a store. Try: a URL such as file:./locks.db")));
        }
        let parsed: StoreUrl = url.parse().map_err(Failure::config)?;
        if parsed.scheme == "memory" {
            return Err(Failure::config(
                "memory: would lock this one process only, so nobody at all. Try: file:./locks.db",
            ));
        }
        Ok(Self { url, ttl: parsed.common.ttl.unwrap_or(TTL), default: None })
    }

    fn default_file(environment: Environment<'_>) -> Result<Self, Failure> {
        if text(environment, "LOCKKEEPER_REQUIRE_STORE")?.is_some_and(|value| value != "0") {
            return Err(Failure::config(
                "no store configured, and LOCKKEEPER_REQUIRE_STORE forbids the default. Try: --store URL, or \
                 LOCKKEEPER_STORE",
            ));
        }
        let path = state_directory(rustix::process::geteuid().is_root(), environment)?.join("lockkeeper/locks.db");
        let text = path.to_str().ok_or_else(|| not_unicode("the path of the default store"))?;
        Ok(Self { url: format!("file:{}", escaped(text)), ttl: TTL, default: Some(path) })
    }
}

fn state_directory(is_root: bool, environment: Environment<'_>) -> Result<PathBuf, Failure> {
    if is_root {
        return Ok("/var/lib".into());
    }
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state"))).ok_or_else(|| {
        Failure::config("no store configured, and HOME does not say where the default could be. Try: --store URL")
    })
}

/// What has a meaning in a URL, as plain characters of a path.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
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

fn owner(flag: Option<&String>, environment: Environment<'_>) -> Result<String, Failure> {
    let Some(owner) = or_variable(flag, environment, "LOCKKEEPER_OWNER")? else {
        return Ok(default_owner(environment));
    };
    let problem = format!("the owner has {} bytes; at most {OWNER_MAX} fit", owner.len());
    match flag {
        _ if owner.len() <= OWNER_MAX => Ok(owner),
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

fn or_variable(flag: Option<&String>, environment: Environment<'_>, name: &str) -> Result<Option<String>, Failure> {
    match flag {
        Some(value) => Ok(Some(value.clone())),
        None => text(environment, name),
    }
}

fn text(environment: Environment<'_>, name: &str) -> Result<Option<String>, Failure> {
    let set = environment(name).filter(|value| !value.is_empty());
    set.map(OsString::into_string).transpose().map_err(|_| not_unicode(name))
}

fn not_unicode(what: &str) -> Failure {
    Failure::config(format!("{what} is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn resolve(global: &Global, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let environment =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Settings::resolve(global, &environment)
    }

    fn store(url: &str) -> Global {
        Global { store: Some(url.to_owned()), ..Global::default() }
    }

    #[test]
    fn a_flag_replaces_the_environment() {
        let variables = [("LOCKKEEPER_STORE", "file:env"), ("LOCKKEEPER_PREFIX", "p/"), ("LOCKKEEPER_OWNER", "o")];
        let settings = resolve(&Global::default(), &variables).unwrap();
        assert_eq!(settings.store.url, "file:env");
        assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some("p/"), "o"));
        let global = Global { name_prefix: Some(String::new()), owner: Some("me".into()), ..store("file:flag") };
        let settings = resolve(&global, &variables).unwrap();
        assert_eq!(settings.store.url, "file:flag");
        assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some(""), "me"));
    }

    #[test]
    fn a_password_may_stand_in_the_environment_only() {
        let failure = resolve(&store("redis://:hush@h"), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(!failure.message.contains("hush"));
        let settings = resolve(&Global::default(), &[("LOCKKEEPER_STORE", "redis://:hush@h")]).unwrap();
        assert!(!format!("{settings:?}").contains("hush"));
    }

    #[test]
    fn what_cannot_be_a_store_is_a_matter_of_configuration() {
        for url in ["memory:", "MEMORY:", "prod", ""] {
            assert_eq!(resolve(&store(url), &[]).unwrap_err().exit, Exit::Config, "{url:?}");
        }
        let required = [("LOCKKEEPER_REQUIRE_STORE", "1"), ("HOME", "/home/me")];
        assert_eq!(resolve(&Global::default(), &required).unwrap_err().exit, Exit::Config);
        assert!(resolve(&store("file:x"), &required).is_ok());
    }

    #[test]
    fn the_default_store_is_a_file_of_this_host() {
        let environment = |variables: &'static [(&str, &str)]| {
            move |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        let of_user = |variables| state_directory(false, &environment(variables)).map_err(|failure| failure.exit);
        assert_eq!(of_user(&[("HOME", "/home/me")]), Ok("/home/me/.local/state".into()));
        assert_eq!(of_user(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "/s")]), Ok("/s".into()));
        assert_eq!(of_user(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "s")]), Ok("/home/me/.local/state".into()));
        assert_eq!(of_user(&[]), Err(Exit::Config));
        assert_eq!(state_directory(true, &environment(&[])).ok(), Some("/var/lib".into()));
        assert_eq!(escaped("/a?b%"), "/a%3Fb%25");
    }

    #[test]
    fn the_notice_is_for_the_default_store_only() {
        let home = [("HOME", "/home/me")];
        let notice = resolve(&Global::default(), &home).unwrap().notice().unwrap();
        assert!(notice.starts_with("no store configured; this lock holds on this host only (file:/"), "{notice}");
        assert_eq!(resolve(&store("file:x"), &home).unwrap().notice(), None);
        let quiet = Global { quiet: true, ..Global::default() };
        assert_eq!(resolve(&quiet, &home).unwrap().notice(), None);
    }

    #[test]
    fn verbosity_follows_flag_then_variable() {
        let verbosity = |global: &Global, value| {
            resolve(global, &[("LOCKKEEPER_STORE", "file:x"), ("LOCKKEEPER_LOG", value)]).unwrap().verbosity
        };
        assert_eq!(verbosity(&Global::default(), ""), Verbosity::Warnings);
        assert_eq!(verbosity(&Global::default(), "error"), Verbosity::Errors);
        assert_eq!(verbosity(&Global { quiet: true, ..Global::default() }, "debug"), Verbosity::Errors);
        assert_eq!(verbosity(&Global { verbose: 1, ..Global::default() }, "off"), Verbosity::Info);
    }
}
