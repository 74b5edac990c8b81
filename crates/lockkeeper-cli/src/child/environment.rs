//! The environment of the command: what the command learns about its lock, and what it must not
//! see.

use std::ffi::OsString;

use crate::held::Held;
use crate::output::has_password;

/// Marks the processes of a command, with a number for each start, so that leftover processes are
/// found.
pub(crate) const RUN_ID: &str = "LOCKKEEPER_RUN_ID";
const STORE: &str = "LOCKKEEPER_STORE";
const SEQUENCERS: &str = "LOCKKEEPER_SEQUENCERS";
/// The sequencers of all runs around the innermost run.
const OUTER_SEQUENCERS: &str = "LOCKKEEPER_OUTER_SEQUENCERS";
const SECRETS: [&str; 2] = ["LOCKKEEPER_PASSWORD", "LOCKKEEPER_PASSWORD_FILE"];

/// The variables for the command. `held` has the order in which the names were typed. `outer` is
/// the result of [`held_outside`].
pub(crate) fn set(held: &[Held], outer: &[String]) -> Vec<(&'static str, String)> {
    let Some(first) = held.first() else { return Vec::new() };
    let lines = |field: fn(&Held) -> &str| held.iter().map(field).collect::<Vec<_>>().join("\n");
    let mut set = vec![
        ("LOCKKEEPER_LOCK", first.name.clone()),
        ("LOCKKEEPER_LOCKS", lines(|held| &held.name)),
        (SEQUENCERS, lines(|held| &held.sequencer)),
        ("LOCKKEEPER_FENCING_TOKEN", first.token.clone()),
        ("LOCKKEEPER_SEQUENCER", first.sequencer.clone()),
        ("LOCKKEEPER_MODE", first.mode.to_owned()),
    ];
    if !outer.is_empty() {
        set.push((OUTER_SEQUENCERS, outer.join("\n")));
    }
    set
}

/// The variable that distinguishes the processes of one start of a command from all other
/// processes.
pub(super) fn mark(number: u64) -> (&'static str, String) {
    (RUN_ID, format!("{number:016x}"))
}

/// Variables that the command does not get, so that a credential of the store does not reach every
/// program that the command starts.
pub(crate) fn stripped(environment: impl Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    let mut names = SECRETS.to_vec();
    if environment(STORE).is_some_and(|store| has_password(&store.to_string_lossy())) {
        names.push(STORE);
    }
    names
}

/// Variables in place of the stripped ones: without them, a lockkeeper inside the command would not
/// see the store, and would lock on a file of this host.
pub(crate) fn in_place_of(stripped: &[&str]) -> Option<(&'static str, String)> {
    stripped.contains(&STORE).then(|| ("LOCKKEEPER_REQUIRE_STORE", "1".to_owned()))
}

/// The sequencers of the locks that the runs around this run hold, the outermost first.
pub(crate) fn held_outside(environment: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let variables =
        [OUTER_SEQUENCERS, SEQUENCERS].map(|variable| environment(variable).unwrap_or_default());
    let mut held: Vec<String> = Vec::new();
    for variable in &variables {
        for line in variable.to_string_lossy().lines() {
            if held.iter().all(|known| known != line) {
                held.push(line.to_owned());
            }
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_has_its_own_variables_and_all_names_have_lines() {
        let held = |name: &str, token: &str| Held {
            name: name.to_owned(),
            token: token.to_owned(),
            sequencer: format!("lk1.x.{token}.{name}"),
            mode: "exclusive",
        };
        let set = set(&[held("b", "7"), held("a", "9")], &["lk1.x.3.c".to_owned()]);
        let get = |name| set.iter().find(|(key, _)| *key == name).unwrap().1.as_str();
        assert_eq!(get("LOCKKEEPER_LOCK"), "b");
        assert_eq!(get("LOCKKEEPER_LOCKS"), "b\na");
        assert_eq!(get("LOCKKEEPER_FENCING_TOKEN"), "7");
        assert_eq!(get("LOCKKEEPER_OUTER_SEQUENCERS"), "lk1.x.3.c");
        assert_eq!(get("LOCKKEEPER_SEQUENCERS"), "lk1.x.7.b\nlk1.x.9.a");
    }

    #[test]
    fn a_store_is_taken_away_only_with_a_password() {
        let with = |url: &'static str| {
            stripped(move |name| (name == "LOCKKEEPER_STORE").then(|| url.into()))
        };
        assert!(with("redis://:pw@h").contains(&"LOCKKEEPER_STORE"));
        assert!(with("redis+sentinel://h/m?sentinel-password=pw").contains(&"LOCKKEEPER_STORE"));
        assert!(!with("redis://h").contains(&"LOCKKEEPER_STORE"));
        assert!(stripped(|_| None).contains(&"LOCKKEEPER_PASSWORD_FILE"));
    }
}
