//! The help for `--store`, from the drivers of this build.

use lockkeeper::store::Driver;
use lockkeeper::url::{CommonParams, UrlForm};

const WHAT: &str = "Where the locks are kept: a URL such as file:/var/lib/app/locks.db, or the name of a store of the \
    configuration [env: LOCKKEEPER_STORE] [default: a file of this user on this host]";

const PASSWORDS: &str = "The URL may not contain a password, since every user of the machine can see it: set \
    LOCKKEEPER_PASSWORD, LOCKKEEPER_PASSWORD_FILE or LOCKKEEPER_STORE instead. With LOCKKEEPER_REQUIRE_STORE=1 there is \
    no default.";

pub(super) fn help() -> String {
    let drivers = lockkeeper::drivers();
    let urls: Vec<_> = drivers.iter().flat_map(|driver| urls(driver)).collect();
    let params: Vec<_> = drivers.iter().filter_map(|driver| params(driver)).collect();
    format!(
        "{WHAT}\n\n{}\n\nSettings stand behind a question mark: ?ttl=20s&prefix=billing/&ca=FILE. All stores take {}. \
         {}\n\n{PASSWORDS}",
        urls.join("; "),
        CommonParams::NAMES.join(", "),
        params.join(" "),
    )
}

/// The URLs of a store. A store in memory would lock this one process only.
fn urls(driver: &Driver) -> Vec<String> {
    let shared = driver.urls.schemes.iter().filter(|scheme| scheme.form != UrlForm::Alone);
    let shown = shared.map(|scheme| match scheme.tls {
        Some(tls) => format!("{} or {tls}:// with TLS", scheme.shown),
        None => scheme.shown.to_owned(),
    });
    shown.collect()
}

/// The parameters that only this store takes.
fn params(driver: &Driver) -> Option<String> {
    let names: Vec<_> = driver.urls.params.iter().map(|param| param.name).collect();
    (!names.is_empty()).then(|| format!("{} takes {}.", driver.name, names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_scheme_and_every_parameter() {
        let help = help();
        for driver in lockkeeper::drivers().into_iter().filter(|driver| driver.name != "Memory") {
            let words =
                driver.urls.names().chain(driver.urls.params.iter().map(|param| param.name));
            for word in words {
                assert!(help.contains(word), "{word}: {help}");
            }
        }
        assert!(!help.contains("memory"));
    }
}
