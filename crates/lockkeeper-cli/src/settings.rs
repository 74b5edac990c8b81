//! The settings after flags, environment, configuration and defaults were merged: the flag comes
//! before the environment, the environment before the URL, the URL before the configuration, and
//! the configuration before the default. One replaces the other.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper::LockName;
use lockkeeper::url::StoreUrl;

use crate::args::Global;
use crate::config::Config;
use crate::exit::Failure;
use crate::hand_down;
use crate::output::{Verbosity, has_password};
use crate::reach;
use crate::secrets::Secrets;
use crate::variables::{Environment, not_unicode, text};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest owner that the library takes, in bytes.
const OWNER_MAX: usize = 255;
const TTL: Duration = Duration::from_secs(30);
const STORE: &str = "LOCKKEEPER_STORE";
const REQUIRE: &str = "LOCKKEEPER_REQUIRE_STORE";

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

/// Where the locks are kept.
#[derive(Debug)]
pub(crate) struct Store {
    /// The URL with its secrets, which it does not show.
    pub(crate) url: StoreUrl,
    /// How long a lock outlives its holder, unless a flag says otherwise.
    pub(crate) ttl: Duration,
    pub(crate) origin: Origin,
    /// A warning about the file of the password.
    warning: Option<String>,
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

    /// For all commands that need other clients in the store.
    pub(crate) fn refuse_memory(&self) -> Result<(), Failure> {
        if self.store.url.scheme != "memory" {
            return Ok(());
        }
        Err(Failure::config("memory: would lock this one process only. Try: file:./locks.db"))
    }

    /// For candidates of an election: without a shared store, every candidate would lead.
    pub(crate) fn refuse_default(&self) -> Result<(), Failure> {
        let Store { url, origin: Origin::Default, .. } = &self.store else { return Ok(()) };
        let reach = reach::of(Path::new(&url.path));
        Err(Failure::config(format!(
            "no store configured; an election would hold {reach}, and candidates elsewhere would lead as well. \
             Try: --store URL, or --store {url} to use that file"
        )))
    }

    /// For all commands that open or look for a file store. If the folder does not exist, the path
    /// was most likely mistyped, and no other client locks in a store that is made there.
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

    /// The same of where the locks are.
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

impl Store {
    fn resolve(
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
            text.parse().map_err(|error| Failure::config(format!("{origin}: {error}")))?
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
        if let Some(who) = required(config, environment)? {
            return Err(Failure::config(format!(
                "no store configured, and {who} forbids the default. Try: --store URL, or {STORE}"
            )));
        }
        if let (Some(name), Some(path)) = (config.first_store(), config.path()) {
            return Err(Failure::config(format!(
                "no store chosen: {} names stores, and no default_store. Try: --store {name}, or default_store = \
                 {name:?} there",
                path.display()
            )));
        }
        let path = state_directory(rustix::process::geteuid().is_root(), environment)?
            .join("lockkeeper/locks.db");
        let text = path.to_str().ok_or_else(|| not_unicode("the path of the default store"))?;
        let url = format!("file:{}", escaped(text)).parse().map_err(Failure::config)?;
        Ok(Self::new(url, Origin::Default))
    }
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
        let shown: String = prefix.chars().take(40).collect();
        let most = LockName::MAX_LEN - 1;
        return Err(Failure::usage(format!(
            "--prefix {shown:?} cannot stand before a NAME. Try: one of at most {most} bytes without control characters"
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
    let problem = format!("the owner has {} bytes. Try: at most {OWNER_MAX}", owner.len());
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
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::exit::Exit;

    /// Without the configuration of the machine that runs the test.
    fn resolve(global: &Global, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let variables = [variables, &[("LOCKKEEPER_CONFIG", "/dev/null")]].concat();
        let environment = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        Settings::resolve(global, &environment)
    }

    fn configured(
        config: &str,
        global: Global,
        variables: &[(&str, &str)],
    ) -> Result<Settings, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), config).unwrap();
        resolve(&Global { config: Some(file.path().to_owned()), ..global }, variables)
    }

    const CONFIG: &str = r#"
        default_store = "prod"
        owner = "of-config"
        connect_timeout = "9s"
        [stores]
        prod = { url = "redis://prod?ttl=7s", prefix = "prod/", ttl = "1h", password = "hunter2" }
        test = { url = "redis://test", ttl = "8s" }
        nodes = { nodes = ["redis://a", "redis://b", "redis://c"] }
    "#;

    #[test]
    fn the_configuration_comes_after_the_url_and_before_the_default() {
        let settings = configured(CONFIG, Global::default(), &[]).unwrap();
        assert_eq!(settings.store.url.to_string(), "redis://:***@prod?prefix=prod/&ttl=7s");
        assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2");
        assert_eq!(
            (settings.store.ttl, settings.connect_timeout),
            (Duration::from_secs(7), Duration::from_secs(9))
        );
        assert_eq!((settings.owner.as_str(), settings.prefix), ("of-config", None));
        let variables = [
            ("LOCKKEEPER_STORE", "test"),
            ("LOCKKEEPER_OWNER", "o"),
            ("LOCKKEEPER_PASSWORD", "hunter2b"),
        ];
        let settings = configured(CONFIG, Global::default(), &variables).unwrap();
        assert_eq!((settings.store.ttl, settings.owner.as_str()), (Duration::from_secs(8), "o"));
        assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2b");
        let global = Global { connect_timeout: Some(Duration::ZERO), ..store("prod") };
        let settings = configured(CONFIG, global, &variables).unwrap();
        assert_eq!(settings.connect_timeout, Duration::ZERO);
        assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2b");
        let settings = configured(CONFIG, store("file:x"), &[]).unwrap();
        assert_eq!(settings.store.url.to_string(), "file:x");
    }

    #[test]
    fn a_name_that_no_store_has_is_refused_with_the_nearest() {
        let refused = |name: &str, config: &str| {
            let failure = configured(config, store(name), &[]).unwrap_err();
            assert_eq!(failure.exit, Exit::Config);
            failure.message
        };
        assert!(refused("prdo", CONFIG).ends_with("has no store \"prdo\". Try: prod"));
        assert!(refused("x", CONFIG).ends_with("Try: one of nodes, prod, test, or a URL"));
        assert!(
            refused("localhost", "")
                .ends_with("Try: a URL such as redis://10.0.0.5 or file:/var/lib/app/locks.db")
        );
        assert!(
            refused("/srv/l.db", "").ends_with("has no store \"/srv/l.db\". Try: file:/srv/l.db")
        );
        assert!(refused("l.db", CONFIG).ends_with("Try: file:l.db"));
        assert!(
            refused("nodes", CONFIG)
                .contains(":8: this version of lockkeeper does not have Redlock")
        );
        let failure = configured("default_store = \"prod\"", Global::default(), &[]).unwrap_err();
        assert!(failure.message.starts_with("default_store of "), "{failure:?}");
    }

    #[test]
    fn a_store_can_be_required_by_the_configuration() {
        let home = [("HOME", "/home/me")];
        let failure = configured("require_store = true", Global::default(), &home).unwrap_err();
        assert!(
            failure.exit == Exit::Config && failure.message.contains("and require_store of /"),
            "{failure:?}"
        );
        assert!(configured("require_store = false", Global::default(), &home).is_ok());
        for no in ["0", "false", "No"] {
            let lifted = [("HOME", "/home/me"), ("LOCKKEEPER_REQUIRE_STORE", no)];
            assert!(configured("require_store = true", Global::default(), &lifted).is_ok());
        }
    }

    #[test]
    fn a_relative_path_in_the_configuration_is_warned_about() {
        let notice = |url: &str, global| {
            let config = format!("default_store = \"x\"\nstores.x.url = \"{url}\"");
            configured(&config, global, &[]).unwrap().notice()
        };
        assert!(
            notice("file:x.db", Global::default())
                .unwrap()
                .contains("file:x.db is another store in every")
        );
        assert_eq!(notice("file:x.db", Global { quiet: true, ..Global::default() }), None);
        assert_eq!(notice("file:/x.db", Global::default()), None);
    }

    fn store(url: &str) -> Global {
        Global { store: Some(url.to_owned()), ..Global::default() }
    }

    #[test]
    fn a_flag_replaces_the_environment() {
        let variables = [
            ("LOCKKEEPER_STORE", "file:env"),
            ("LOCKKEEPER_PREFIX", "p/"),
            ("LOCKKEEPER_OWNER", "o"),
        ];
        let settings = resolve(&Global::default(), &variables).unwrap();
        assert_eq!(settings.store.url.to_string(), "file:env");
        assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some("p/"), "o"));
        let global = Global {
            name_prefix: Some(String::new()),
            owner: Some("me".into()),
            ..store("file:flag")
        };
        let settings = resolve(&global, &variables).unwrap();
        assert_eq!(settings.store.url.to_string(), "file:flag");
        assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some(""), "me"));
    }

    #[test]
    fn a_password_may_be_only_in_the_environment() {
        let failure = resolve(&store("redis://:hunter2@h"), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(!failure.message.contains("hunter2"));
        let settings =
            resolve(&Global::default(), &[("LOCKKEEPER_STORE", "redis://:hunter2@h")]).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn what_cannot_be_a_store_is_a_matter_of_configuration() {
        for url in ["memory:", "MEMORY:"] {
            let settings = resolve(&store(url), &[]).unwrap();
            assert_eq!(settings.refuse_memory().unwrap_err().exit, Exit::Config, "{url:?}");
        }
        for url in ["prod", ""] {
            assert_eq!(resolve(&store(url), &[]).unwrap_err().exit, Exit::Config, "{url:?}");
        }
        let required = [("LOCKKEEPER_REQUIRE_STORE", "1"), ("HOME", "/home/me")];
        assert_eq!(resolve(&Global::default(), &required).unwrap_err().exit, Exit::Config);
        assert!(resolve(&store("file:x"), &required).is_ok());
    }

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

    #[test]
    fn the_notice_is_for_the_default_store_only() {
        let home = [("HOME", "/home/me")];
        let notice = resolve(&Global::default(), &home).unwrap().notice().unwrap();
        assert!(notice.starts_with("no store configured; this lock holds "), "{notice}");
        assert!(
            notice.contains("on this host only (file:/")
                || notice.contains("in this container only (file:/")
        );
        assert_eq!(resolve(&store("file:x"), &home).unwrap().notice(), None);
        let quiet = Global { quiet: true, ..Global::default() };
        assert_eq!(resolve(&quiet, &home).unwrap().notice(), None);
    }

    #[test]
    fn verbosity_follows_flag_then_variable() {
        let verbosity = |global: &Global, value| {
            resolve(global, &[("LOCKKEEPER_STORE", "file:x"), ("LOCKKEEPER_LOG", value)])
                .unwrap()
                .verbosity
        };
        assert_eq!(verbosity(&Global::default(), ""), Verbosity::Warnings);
        assert_eq!(verbosity(&Global::default(), "error"), Verbosity::Errors);
        assert_eq!(
            verbosity(&Global { quiet: true, ..Global::default() }, "debug"),
            Verbosity::Errors
        );
        assert_eq!(verbosity(&Global { verbose: 1, ..Global::default() }, "off"), Verbosity::Info);
    }
}
