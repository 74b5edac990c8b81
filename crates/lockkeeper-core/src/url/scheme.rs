//! The schemes that can be read: the schemes of lockkeeper's own stores, also in a build without
//! the store, the schemes of registered stores, and those of stores that a later version will have.

use std::sync::{PoisonError, RwLock};

use super::nearest;
use super::syntax::{UrlForm, UrlSyntax};
use crate::{Error, ErrorKind, Result};

/// One of lockkeeper's own stores, for a build that lacks the store. The driver of the store has
/// all else.
struct Own {
    /// The schemes of its URLs, the most usual one first.
    names: &'static [&'static str],
    form: UrlForm,
    /// What a build without the store lacks.
    needs: &'static str,
}

/// A line for each of lockkeeper's own stores.
static OWN: [Own; 5] = [
    Own { names: &["memory"], form: UrlForm::Alone, needs: "nothing" },
    Own { names: &["file"], form: UrlForm::Path, needs: "the cargo feature `file`, on Linux" },
    Own { names: &REDIS, form: UrlForm::Hosts, needs: "the cargo feature `redis`" },
    Own {
        names: &["redlock", "redlocks"],
        form: UrlForm::Hosts,
        needs: "the cargo feature `redlock`",
    },
    Own { names: &["etcd", "etcds"], form: UrlForm::Hosts, needs: "the cargo feature `etcd`" },
];

const REDIS: [&str; 6] =
    ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// Stores that no example names: a user without a store begins with one server.
const NO_EXAMPLES: [&str; 1] = ["redlock"];

/// Schemes of stores that a later version will have.
const LATER: [&str; 8] =
    ["zk", "zks", "mysql", "mariadb", "postgres", "postgresql", "http", "https"];

/// The schemes of a store, with the form of their URLs.
type Schemes = Vec<(&'static str, UrlForm)>;

/// The schemes of the registered stores.
static REGISTERED: RwLock<Vec<Schemes>> = RwLock::new(Vec::new());

impl Own {
    fn schemes(&self) -> Schemes {
        self.names.iter().map(|name| (*name, self.form)).collect()
    }
}

/// The schemes of each store that can be read, lockkeeper's own first.
fn stores() -> Vec<Schemes> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    OWN.iter().map(Own::schemes).chain(registered.iter().cloned()).collect()
}

/// Every scheme, and the form of its URLs.
fn names() -> Schemes {
    stores().into_iter().flatten().chain(LATER.map(|name| (name, UrlForm::Hosts))).collect()
}

/// From now on these URLs can be read, if none of their schemes is known already. Otherwise the
/// error is the known scheme.
#[doc(hidden)]
pub fn register(syntax: &UrlSyntax) -> Result<(), &'static str> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let own = OWN.iter().flat_map(|own| own.names).chain(&LATER).copied();
    let mut known = own.chain(registered.iter().flatten().map(|(name, _)| *name));
    match known.find(|known| syntax.names().any(|name| name == *known)) {
        Some(taken) => Err(taken),
        None => {
            registered.push(syntax.forms().collect());
            Ok(())
        }
    }
}

/// Whether every build reads URLs of these schemes, as those of one of lockkeeper's own stores.
#[doc(hidden)]
pub fn is_own(syntax: &UrlSyntax) -> bool {
    OWN.iter().any(|own| syntax.forms().eq(own.schemes()))
}

/// The scheme as in the table, in any case, and the form of its URLs.
pub(super) fn find(scheme: &str) -> Option<(&'static str, UrlForm)> {
    names().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme))
}

/// The likely meaning of an unknown scheme.
pub(super) fn suggestion(scheme: &str) -> String {
    let names = names();
    let meant = nearest(scheme, names.iter().map(|(name, _)| *name));
    match names.iter().find(|(name, _)| Some(*name) == meant) {
        Some((name, UrlForm::Hosts)) => format!("{name}://"),
        Some((name, _)) => format!("{name}:"),
        None => examples(),
    }
}

/// Examples for a user without a valid store: lockkeeper's own stores, the last one first.
pub(super) fn examples() -> String {
    let example = |(name, form): &(&str, UrlForm)| match form {
        _ if NO_EXAMPLES.contains(name) => None,
        UrlForm::Alone => None,
        UrlForm::Path => Some(format!("{name}:PATH")),
        UrlForm::Hosts => Some(format!("{name}://HOST")),
    };
    let mut examples: Vec<_> =
        stores().iter().rev().filter_map(|store| store.first().and_then(example)).collect();
    match examples.pop() {
        Some(last) if examples.is_empty() => last,
        Some(last) => format!("{} or {last}", examples.join(", ")),
        None => String::new(),
    }
}

/// The error for a scheme whose store this build lacks.
pub(super) fn lacking(scheme: &str) -> Error {
    let (message, remedy) = match OWN.iter().find(|own| own.names.contains(&scheme)) {
        Some(own) => (
            format!("{scheme}: needs {}", own.needs),
            "a build of lockkeeper that has it".to_owned(),
        ),
        None => (
            format!("this version of lockkeeper does not have the store of {scheme}:// yet"),
            examples(),
        ),
    };
    Error::new(ErrorKind::Unsupported, message).with_remedy(remedy)
}
