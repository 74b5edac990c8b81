//! Passwords and tokens on their way from the environment and from files to the store's URL. None is ever printed, and
//! no error repeats a piece of one.

use std::fs::File;
use std::io;
use std::path::Path;

use lockkeeper::Secret;
use lockkeeper::url::StoreUrl;

use crate::exit::Failure;
use crate::settings::{Environment, text};
use crate::small_file;

/// The variables that hold a secret; with `_FILE` behind it each names a file that does.
const PASSWORD: &str = "LOCKKEEPER_PASSWORD";
const API_TOKEN: &str = "LOCKKEEPER_API_TOKEN";

/// What the environment gives, in place of what stands in a URL or in the configuration.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    pub(crate) password: Option<Secret>,
    pub(crate) api_token: Option<Secret>,
}

impl Secrets {
    pub(crate) fn resolve(environment: Environment<'_>) -> Result<Self, Failure> {
        Ok(Self { password: variable(PASSWORD, environment)?, api_token: variable(API_TOKEN, environment)? })
    }

    pub(crate) fn put_into(self, mut url: StoreUrl) -> StoreUrl {
        if let Some(password) = self.password {
            url = url.with_password(password);
        }
        if let Some(token) = self.api_token {
            url = url.with_api_token(token);
        }
        url
    }
}

fn variable(name: &str, environment: Environment<'_>) -> Result<Option<Secret>, Failure> {
    let of_file = format!("{name}_FILE");
    let path = environment(&of_file).filter(|path| !path.is_empty());
    match (text(environment, name)?, path) {
        (Some(_), Some(_)) => Err(Failure::config(format!("{name} and {of_file} are both set. Try: one of them"))),
        (Some(secret), None) => Ok(Some(Secret::new(secret))),
        (None, Some(path)) => read_file(&of_file, Path::new(&path)).map(Some),
        (None, None) => Ok(None),
    }
}

/// The secret in a file, without the newline that editors put behind it. `what` named the file.
pub(crate) fn read_file(what: &str, path: &Path) -> Result<Secret, Failure> {
    let failed = |problem: &str| Failure::config(format!("{what}: {} {problem}", path.display()));
    let text = File::open(path).and_then(small_file::read).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => failed("is not UTF-8. Try: a file with nothing but the secret"),
        _ => failed(&format!("cannot be read: {error}. Try: the path of a file that this user may read")),
    })?;
    let whole = Secret::new(text);
    let line = whole.expose();
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(failed("is empty. Try: a file with nothing but the secret"));
    }
    if line.contains(char::is_control) {
        return Err(failed("has more than one line. Try: a file with nothing but the secret"));
    }
    Ok(Secret::new(line))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::exit::Exit;

    fn resolve(variables: &[(&str, &str)]) -> Result<Secrets, Failure> {
        Secrets::resolve(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    fn password(variables: &[(&str, &str)]) -> Result<Option<String>, Failure> {
        Ok(resolve(variables)?.password.map(|password| password.expose().to_owned()))
    }

    #[test]
    fn a_secret_comes_from_the_variable_or_from_the_file_that_it_names() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(password(&[(PASSWORD, "hunter2 ")]).unwrap().as_deref(), Some("hunter2 "));
        assert_eq!(password(&[(PASSWORD, ""), ("LOCKKEEPER_PASSWORD_FILE", "")]).unwrap(), None);
        for (content, secret) in [("hunter2", "hunter2"), ("hunter2\n", "hunter2"), (" hunter2 \r\n", " hunter2 ")] {
            std::fs::write(path, content).unwrap();
            assert_eq!(password(&[("LOCKKEEPER_PASSWORD_FILE", path)]).unwrap().as_deref(), Some(secret));
        }
        let token = resolve(&[("LOCKKEEPER_API_TOKEN_FILE", path)]).unwrap().api_token.unwrap();
        assert_eq!(token.expose(), " hunter2 ");
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_without_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let refused = |variables: &[(&str, &str)]| {
            let failure = resolve(variables).unwrap_err();
            assert_eq!(failure.exit, Exit::Config);
            assert!(!failure.message.contains("hunter2") && failure.message.contains("Try: "), "{failure:?}");
            failure.message
        };
        for content in [&b""[..], b"\n", b"hunter2\nhunter2\n", b"hunter2\0", b"hunter2\xff"] {
            std::fs::write(path, content).unwrap();
            let message = refused(&[("LOCKKEEPER_PASSWORD_FILE", path)]);
            assert!(message.starts_with(&format!("LOCKKEEPER_PASSWORD_FILE: {path} ")), "{message}");
        }
        let message = refused(&[("LOCKKEEPER_API_TOKEN_FILE", "/nowhere/token")]);
        assert!(message.starts_with("LOCKKEEPER_API_TOKEN_FILE: /nowhere/token cannot be read"), "{message}");
        let both = refused(&[(PASSWORD, "hunter2"), ("LOCKKEEPER_PASSWORD_FILE", path)]);
        assert!(both.starts_with("LOCKKEEPER_PASSWORD and LOCKKEEPER_PASSWORD_FILE are both set"), "{both}");
    }

    #[test]
    fn what_the_environment_gives_replaces_what_the_url_has() {
        let url: StoreUrl = "redis://me:old@h".parse().unwrap();
        let kept = Secrets::default().put_into(url.clone());
        assert_eq!(kept.password.unwrap().expose(), "old");
        let secrets = resolve(&[(PASSWORD, "hunter2"), (API_TOKEN, "hunter2t")]).unwrap();
        let url = secrets.put_into(url);
        assert_eq!((url.password.unwrap().expose(), url.api_token.unwrap().expose()), ("hunter2", "hunter2t"));
    }
}
