//! The password on its way from the environment and from files to the store's URL. It is never
//! printed, and no error repeats a part of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lockkeeper::Secret;
use lockkeeper::url::StoreUrl;
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::process::geteuid;

use crate::exit::Failure;
use crate::small_file;
use crate::variables::{Environment, text};

/// The variable with the password, and the variable with the path of a file.
const PASSWORD: &str = "LOCKKEEPER_PASSWORD";
const PASSWORD_FILE: &str = "LOCKKEEPER_PASSWORD_FILE";
/// The permission of every user of the machine to read a file.
const READ_BY_ALL: u32 = 0o004;

/// The secrets of the environment or the configuration, which replace those of a URL.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    pub(crate) password: Option<Secret>,
    /// A warning about the file of the password.
    pub(crate) warning: Option<String>,
}

impl Secrets {
    pub(crate) fn resolve(environment: Environment<'_>) -> Result<Self, Failure> {
        for (name, value) in [(PASSWORD, "the password"), (PASSWORD_FILE, "the path of a file")] {
            if environment(name).is_some_and(|value| value.is_empty()) {
                return Err(Failure::config(format!(
                    "{name} is empty, as where a secret is missing. Try: {value} as its value, or unset {name}"
                )));
            }
        }
        match (text(environment, PASSWORD)?, environment(PASSWORD_FILE)) {
            (Some(_), Some(_)) => Err(Failure::config(format!(
                "{PASSWORD} and {PASSWORD_FILE} are both set. Try: one of them"
            ))),
            (Some(password), None) => {
                Ok(Self { password: Some(Secret::new(password)), warning: None })
            }
            (None, Some(path)) => read_file(PASSWORD_FILE, Path::new(&path)),
            (None, None) => Ok(Self::default()),
        }
    }

    pub(crate) fn put_into(self, url: StoreUrl) -> StoreUrl {
        match self.password {
            Some(password) => url.with_password(password),
            None => url,
        }
    }
}

/// The password in a file, without the newline that editors put after it. `what` named the file.
pub(crate) fn read_file(what: &str, path: &Path) -> Result<Secrets, Failure> {
    let failed = |problem: &str| Failure::config(format!("{what}: {} {problem}", path.display()));
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => {
            failed("is not UTF-8. Try: a file with nothing but the secret")
        }
        _ => failed(&format!(
            "cannot be read: {error}. Try: the path of a file that this user may read"
        )),
    };
    let file = File::open(path).map_err(unreadable)?;
    let is_open = is_open_to_all(&file);
    let whole = Secret::new(small_file::read(file).map_err(unreadable)?);
    let line = whole.expose();
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(failed("is empty. Try: a file with nothing but the secret"));
    }
    if line.contains(char::is_control) {
        return Err(failed("has more than one line. Try: a file with nothing but the secret"));
    }
    let path = path.display();
    let warning = is_open.then(|| {
        format!("{what}: {path} can be read by every user of this machine. Try: chmod 600 {path}")
    });
    Ok(Secrets { password: Some(Secret::new(line)), warning })
}

/// Returns whether every user may read the file, and this user can change that. A service cannot
/// change a file of root, and nobody can change a file on a read-only mount, such as the secrets of
/// Kubernetes and Docker.
fn is_open_to_all(file: &File) -> bool {
    let is_ours = |meta: &std::fs::Metadata| meta.is_file() && meta.uid() == geteuid().as_raw();
    let is_fixed =
        || fstatvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY));
    file.metadata().is_ok_and(|meta| is_ours(&meta) && meta.mode() & READ_BY_ALL != 0)
        && !is_fixed()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::exit::Exit;

    fn resolve(variables: &[(&str, &str)]) -> Result<Secrets, Failure> {
        Secrets::resolve(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn password(variables: &[(&str, &str)]) -> Result<Option<String>, Failure> {
        Ok(resolve(variables)?.password.map(|password| password.expose().to_owned()))
    }

    #[test]
    fn a_secret_comes_from_the_variable_or_from_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(password(&[(PASSWORD, "hunter2 ")]).unwrap().as_deref(), Some("hunter2 "));
        assert_eq!(password(&[]).unwrap(), None);
        for (content, secret) in
            [("hunter2", "hunter2"), ("hunter2\n", "hunter2"), (" hunter2 \r\n", " hunter2 ")]
        {
            std::fs::write(path, content).unwrap();
            assert_eq!(
                password(&[("LOCKKEEPER_PASSWORD_FILE", path)]).unwrap().as_deref(),
                Some(secret)
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_without_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let refused = |variables: &[(&str, &str)]| {
            let failure = resolve(variables).unwrap_err();
            assert_eq!(failure.exit, Exit::Config);
            assert!(
                !failure.message.contains("hunter2") && failure.message.contains("Try: "),
                "{failure:?}"
            );
            failure.message
        };
        for content in [&b""[..], b"\n", b"hunter2\nhunter2\n", b"hunter2\0", b"hunter2\xff"] {
            std::fs::write(path, content).unwrap();
            let message = refused(&[("LOCKKEEPER_PASSWORD_FILE", path)]);
            assert!(
                message.starts_with(&format!("LOCKKEEPER_PASSWORD_FILE: {path} ")),
                "{message}"
            );
        }
        let message = refused(&[(PASSWORD_FILE, "/nowhere/password")]);
        assert!(
            message.starts_with("LOCKKEEPER_PASSWORD_FILE: /nowhere/password cannot be read"),
            "{message}"
        );
        for (name, other) in [(PASSWORD, PASSWORD_FILE), (PASSWORD_FILE, PASSWORD)] {
            let message = refused(&[(name, ""), (other, path)]);
            assert!(
                message.starts_with(&format!("{name} is empty, as where a secret is missing")),
                "{message}"
            );
        }
        let both = refused(&[(PASSWORD, "hunter2"), ("LOCKKEEPER_PASSWORD_FILE", path)]);
        assert!(
            both.starts_with("LOCKKEEPER_PASSWORD and LOCKKEEPER_PASSWORD_FILE are both set"),
            "{both}"
        );
    }

    #[test]
    fn what_the_environment_gives_replaces_what_the_url_has() {
        let url: StoreUrl = "redis://me:old@h".parse().unwrap();
        let kept = Secrets::default().put_into(url.clone());
        assert_eq!(kept.password.unwrap().expose(), "old");
        let url = resolve(&[(PASSWORD, "hunter2")]).unwrap().put_into(url);
        assert_eq!(url.password.unwrap().expose(), "hunter2");
    }
}
