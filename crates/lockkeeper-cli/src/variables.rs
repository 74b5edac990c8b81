//! The variables of the environment.

use std::ffi::OsString;

use crate::exit::Failure;

/// The environment, or a test's version of it. An empty variable counts as unset, except for the
/// store and its password. There, an empty value is a missing secret or setting, and must not
/// become a file of this host, or a login without a password.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

pub(crate) fn text(environment: Environment<'_>, name: &str) -> Result<Option<String>, Failure> {
    let set = environment(name).filter(|value| !value.is_empty());
    set.map(OsString::into_string).transpose().map_err(|_| not_unicode(name))
}

/// A value that is no text.
pub(crate) fn not_unicode(what: &str) -> Failure {
    Failure::config(format!("{what} is not valid UTF-8. Try: a value in UTF-8, or none"))
}
