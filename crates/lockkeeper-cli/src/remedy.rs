//! Remedies that name a command of lockkeeper, completed with the options that chose the store:
//! without them the command would use another store.

use std::borrow::Cow;
use std::sync::OnceLock;

use lockkeeper::Error;

use crate::args::Global;
use crate::exit::Failure;

const DOCTOR: &str = "lockkeeper doctor";
/// How the library writes the command for the lock of an error.
const BREAK: &str = "lockkeeper break NAME";

/// The options of this process. The environment also applies to the next command, so the remedy
/// does not repeat it.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Says which options chose the store.
pub(crate) fn know(global: &Global) {
    // There is one command line.
    drop(OPTIONS.set(options(global)));
}

fn options(global: &Global) -> String {
    let config = global
        .config
        .as_deref()
        .map(|path| format!(" --config {}", quoted(&path.to_string_lossy())));
    let store = global.store.as_deref().map(|store| format!(" -S {}", quoted(store)));
    let prefix = global.name_prefix.as_deref();
    let prefix = prefix.map(|prefix| format!(" --prefix {}", quoted(prefix)));
    config.into_iter().chain(store).chain(prefix).collect()
}

/// The line with a remedy that can be pasted.
pub(crate) fn completed(line: &str) -> Cow<'_, str> {
    with_options(line, OPTIONS.get().map_or("", String::as_str))
}

/// The failure, whose remedy has the name as it was typed, and the options.
pub(crate) fn named(error: Error, name: &str) -> Failure {
    let mut failure = Failure::from(error);
    failure.message = with_name(&failure.message, name, OPTIONS.get().map_or("", String::as_str));
    failure
}

/// The command that removes this holder.
pub(crate) fn to_break(name: &str, id: &str) -> String {
    let options = OPTIONS.get().map_or("", String::as_str);
    let name = quoted(name);
    format!(
        "lockkeeper break{options} {name} --id {id} --now --reason dead, if its program has ended"
    )
}

fn with_name(line: &str, name: &str, options: &str) -> String {
    let (problem, remedy) = line.split_at(line.rfind("Try: ").unwrap_or(line.len()));
    let command = format!("lockkeeper break{options} {}", quoted(name));
    format!("{problem}{}", remedy.replace(BREAK, &command))
}

/// Only the text after `Try:` is certainly lockkeeper's own.
fn with_options<'a>(line: &'a str, options: &str) -> Cow<'a, str> {
    let at = line.rfind("Try: ").filter(|_| !options.is_empty());
    match at.map(|at| line.split_at(at)) {
        Some((problem, remedy)) if remedy.contains(DOCTOR) => Cow::Owned(format!(
            "{problem}{}",
            remedy.replace(DOCTOR, &format!("{DOCTOR}{options}"))
        )),
        _ => Cow::Borrowed(line),
    }
}

/// The word in quotes, so that a shell reads it as one word.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_gets_the_options_that_chose_the_store() {
        let global = |store: &str| Global { store: Some(store.to_owned()), ..Global::default() };
        let line = "redis://h: gone. Try: lockkeeper doctor, or a look whether the server runs";
        for (global, remedy) in [
            (Global::default(), "lockkeeper doctor, or"),
            (global("redis://h"), "lockkeeper doctor -S redis://h, or"),
            (global("file:/a b?ttl=2s"), "lockkeeper doctor -S 'file:/a b?ttl=2s', or"),
            (global("it's"), r"lockkeeper doctor -S 'it'\''s', or"),
            (
                Global { config: Some("c.toml".into()), ..global("prod") },
                "lockkeeper doctor --config c.toml -S prod, or",
            ),
            (
                Global { name_prefix: Some("a b/".to_owned()), ..global("prod") },
                "lockkeeper doctor -S prod --prefix 'a b/', or",
            ),
        ] {
            let printed = with_options(line, &options(&global)).into_owned();
            assert!(printed.starts_with(&format!("redis://h: gone. Try: {remedy}")), "{printed}");
        }
    }

    #[test]
    fn break_gets_the_name_as_it_was_typed_and_the_options() {
        let line = "lock \"lockkeeper break NAME\": held. Try: lockkeeper break NAME --id 7 --now";
        assert_eq!(
            with_name(line, "a b", " -S redis://h"),
            "lock \"lockkeeper break NAME\": held. Try: lockkeeper break -S redis://h 'a b' --id 7 --now"
        );
    }

    #[test]
    fn what_is_no_remedy_stays_as_it_is() {
        for line in [
            "lockkeeper doctor runs (stuck)",
            "lock \"lockkeeper doctor\": busy. Try: a longer --wait",
        ] {
            assert_eq!(with_options(line, " -S redis://h"), line);
        }
    }
}
