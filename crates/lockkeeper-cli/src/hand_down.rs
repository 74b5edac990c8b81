//! What a lockkeeper inside the command has to know in order to reach the same locks: the flags for
//! the store, as variables.

use std::path::{Path, absolute};

use lockkeeper::url::StoreUrl;

use crate::args::Global;

/// The variables for the command. The command inherits the other variables of the environment
/// anyway.
pub(crate) fn variables(global: &Global) -> Vec<(&'static str, String)> {
    let config =
        global.config.as_deref().and_then(|path| Some(absolute(path).ok()?.to_str()?.to_owned()));
    let known = [
        global.store.as_deref().map(store),
        config.map(|path| ("LOCKKEEPER_CONFIG", path)),
        global.name_prefix.clone().map(|prefix| ("LOCKKEEPER_PREFIX", prefix)),
    ];
    known.into_iter().flatten().collect()
}

/// A name of the configuration, or a URL: a relative path would name another file once the command
/// changes its directory.
fn store(typed: &str) -> (&'static str, String) {
    let Ok(mut url) = typed.parse::<StoreUrl>() else {
        return ("LOCKKEEPER_STORE", typed.to_owned());
    };
    if url.has_password() {
        // A URL with a password must not be visible to every user; no store at all is better than
        // another store.
        return ("LOCKKEEPER_REQUIRE_STORE", "1".to_owned());
    }
    if url.scheme == "file"
        && let Some(path) = absolute(Path::new(&url.path)).ok().as_deref().and_then(Path::to_str)
    {
        path.clone_into(&mut url.path);
    }
    ("LOCKKEEPER_STORE", url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_file_becomes_an_absolute_one() {
        let (name, url) = store("file:a%20b.db?prefix=p/");
        assert_eq!(name, "LOCKKEEPER_STORE");
        let again: StoreUrl = url.parse().unwrap();
        assert_eq!(Path::new(&again.path), std::env::current_dir().unwrap().join("a b.db"));
        assert_eq!(again.common.prefix.as_deref(), Some("p/"));
        assert_eq!(store("prod").1, "prod");
        assert_eq!(store("redis://h:6379/0").1, "redis://h:6379/0");
    }
}
