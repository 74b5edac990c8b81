//! The configuration file: which file counts, and its contents.
//!
//! ```toml
//! default_store = "prod"
//! require_store = true
//! owner = "ci@runner-7"
//! connect_timeout = "5s"
//! [stores]
//! prod = { url = "redis://db-1:6379", password_file = "/run/secrets/redis", prefix = "billing/", ttl = "20s" }
//! ```

mod entry;
mod file;

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper::url::nearest;

pub(crate) use self::entry::{Address, Entry, url};
use crate::exit::Failure;
use crate::small_file;
use crate::variables::Environment;

const OF_THE_HOST: &str = "/etc/lockkeeper/config.toml";
const VARIABLE: &str = "LOCKKEEPER_CONFIG";
/// An error about an unknown store lists this many names.
const NAMES_SHOWN: usize = 8;

const A_URL: &str = "a URL such as redis://10.0.0.5 or file:/var/lib/app/locks.db";

/// The contents of the file; empty if there is no file.
#[derive(Debug, Default)]
pub(crate) struct Config {
    path: PathBuf,
    pub(crate) default_store: Option<String>,
    pub(crate) require_store: Option<bool>,
    pub(crate) owner: Option<String>,
    pub(crate) connect_timeout: Option<Duration>,
    stores: BTreeMap<String, Entry>,
}

impl Config {
    /// Reads the file that `--config` or the variable names, else the first of the usual files that
    /// exists.
    pub(crate) fn load(flag: Option<&Path>, environment: Environment<'_>) -> Result<Self, Failure> {
        let variable = environment(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = flag {
            return read(path).map_err(|error| unreadable("--config", path, &error))?;
        }
        if let Some(path) = variable {
            return read(&path).map_err(|error| unreadable(VARIABLE, &path, &error))?;
        }
        for path in usual(environment) {
            match read(&path) {
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(unreadable("the configuration", &path, &error)),
                Ok(config) => return config,
            }
        }
        Ok(Self::default())
    }

    /// The path of the file; `None` if there is no file.
    pub(crate) fn path(&self) -> Option<&Path> {
        (!self.path.as_os_str().is_empty()).then_some(&self.path)
    }

    /// The name of one of the stores, if there is any.
    pub(crate) fn first_store(&self) -> Option<&str> {
        self.stores.keys().next().map(String::as_str)
    }

    /// The entry of this name; `wanted_by` names the option or variable that asks for the store.
    pub(crate) fn store(&self, name: &str, wanted_by: &str) -> Result<&Entry, Failure> {
        if let Some(entry) = self.stores.get(name) {
            return Ok(entry);
        }
        let Some(path) = self.path() else {
            let problem = format!(
                "{wanted_by}: there is no store {name:?}, since there is no configuration file"
            );
            let remedy =
                url_of_a_path(name).unwrap_or_else(|| format!("{A_URL}, or --config FILE"));
            return Err(Failure::config(format!("{problem}. Try: {remedy}")));
        };
        let problem = format!("{wanted_by}: {} has no store {name:?}", path.display());
        let names = self.stores.keys().map(String::as_str);
        if let Some(url) = url_of_a_path(name) {
            return Err(Failure::config(format!("{problem}. Try: {url}")));
        }
        let remedy = match nearest(name, names.clone()) {
            Some(meant) => meant.to_owned(),
            None if self.stores.is_empty() => A_URL.to_owned(),
            None => format!(
                "one of {}, or a URL",
                names.take(NAMES_SHOWN).collect::<Vec<_>>().join(", ")
            ),
        };
        Err(Failure::config(format!("{problem}. Try: {remedy}")))
    }
}

/// The most likely intention behind a path.
fn url_of_a_path(name: &str) -> Option<String> {
    let is_path = name.contains('/') && !name.contains("//") || name.ends_with(".db");
    is_path.then(|| format!("file:{name}"))
}

fn usual(environment: Environment<'_>) -> Vec<PathBuf> {
    let folder = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_the_user =
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let of_the_user = of_the_user.map(|folder| folder.join("lockkeeper/config.toml"));
    of_the_user.into_iter().chain([OF_THE_HOST.into()]).collect()
}

/// The outer result is of reading, the inner one of parsing.
fn read(path: &Path) -> io::Result<Result<Config, Failure>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let text = small_file::read(file)?;
    if meta.is_file() && meta.mode() & 0o022 != 0 {
        return Ok(Err(writable(path)));
    }
    Ok(file::understand(path, &text).and_then(|(config, has_secrets)| {
        if has_secrets && is_open_to_others(&meta) { Err(too_open(path)) } else { Ok(config) }
    }))
}

/// The rule of ssh for keys, except that the group may read a file of root: a service gets its file
/// in this way.
fn is_open_to_others(meta: &Metadata) -> bool {
    let allowed = if meta.uid() == 0 { 0o040 } else { 0 };
    meta.mode() & 0o044 & !allowed != 0
}

fn too_open(path: &Path) -> Failure {
    let path = path.display();
    Failure::config(format!(
        "{path} contains a password, and others can read it. Try: chmod 600 {path}, or password_file instead"
    ))
}

/// A user who can choose the store could make the program send its password there.
fn writable(path: &Path) -> Failure {
    let path = path.display();
    Failure::config(format!(
        "{path}: users other than its owner can write it, and could choose another store. Try: chmod go-w {path}"
    ))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(what: &str, path: &Path, error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::InvalidData {
        "a TOML file in UTF-8"
    } else {
        "--config FILE with a readable file, or --config /dev/null for no configuration"
    };
    Failure::config(format!("{what}: {} cannot be read: {error}. Try: {remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::exit::Exit;

    fn paths(variables: &'static [(&str, &str)]) -> Vec<PathBuf> {
        usual(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_users_file_precedes_the_hosts_file() {
        let host = Path::new(OF_THE_HOST);
        assert_eq!(paths(&[]), [host]);
        assert_eq!(
            paths(&[("HOME", "/h")]),
            [Path::new("/h/.config/lockkeeper/config.toml"), host]
        );
        assert_eq!(
            paths(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")])[0],
            Path::new("/x/lockkeeper/config.toml")
        );
        assert_eq!(
            paths(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")])[0]
                .parent()
                .unwrap()
                .parent()
                .unwrap(),
            Path::new("/h/.config")
        );
        assert_eq!(paths(&[("HOME", "h")]), [host]);
    }

    #[test]
    fn a_password_in_a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let load = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            Config::load(Some(&path), &|_| None).map(drop)
        };
        let secrets = [
            "default_store = \"redis://:hunter2@h\"",
            "stores.a = { url = \"redis://h\", password = \"hunter2\" }",
            "stores.a = { url = \"redis://:hunter2@h\" }",
            "stores.a = { url = \"redis+sentinel://h/m?sentinel-password=hunter2\" }",
            "stores.a = { nodes = [\"redis://h\", \"redis://:hunter2@i\"] }",
        ];
        for text in secrets {
            load(text, 0o600).unwrap();
            let failure = load(text, 0o604).unwrap_err();
            assert_eq!(failure.exit, Exit::Config);
            assert!(
                failure.message.contains("chmod 600") && !failure.message.contains("hunter2"),
                "{failure:?}"
            );
        }
        load("stores.a = { url = \"redis://me@h\", password_file = \"/run/x\" }", 0o644).unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, "").unwrap();
        for mode in [0o646, 0o664, 0o620, 0o602] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let failure = Config::load(Some(&path), &|_| None).map(drop).unwrap_err();
            assert!(
                failure.message.contains("chmod go-w") && failure.exit == Exit::Config,
                "{mode:o}: {failure:?}"
            );
        }
    }
}
