//! The scripts, each in one piece. This module puts the shared parts into each script, so that one
//! call is one script.

#[cfg(test)]
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::wire::Script;

/// A script: one file at the beginning, then the state of a line and the code that writes it, and
/// another file at the end.
macro_rules! script {
    ($before:literal, $after:literal) => {
        LazyLock::new(|| {
            Script::new(
                inlined(concat!(
                    include_str!("../lua/record.lua"),
                    include_str!("../lua/start.lua"),
                    include_str!(concat!("../lua/", $before, ".lua")),
                    include_str!("../lua/line.lua"),
                    include_str!("../lua/write.lua"),
                    include_str!(concat!("../lua/", $after, ".lua")),
                ))
                .leak(),
            )
            .loaded_with(of_claims)
        })
    };
}

pub(super) static CLAIM: LazyLock<Script> = script!("claim_free", "claim");
pub(super) static WITHDRAW: LazyLock<Script> = script!("withdraw_alone", "withdraw");
pub(super) static RENEW: LazyLock<Script> = script!("renew_each", "renew");
pub(super) static LOOK: LazyLock<Script> = script!("one", "look");
pub(super) static LINE: LazyLock<Script> = script!("one", "read");
pub(super) static OBSERVE: LazyLock<Script> = script!("one", "observe");
pub(super) static AMEND: LazyLock<Script> = script!("one", "amend");
pub(super) static EVICT: LazyLock<Script> = script!("one", "evict");
pub(super) static REQUEST: LazyLock<Script> = script!("one", "request");
pub(super) static LINES: LazyLock<Script> = script!("lines_each", "lines");
/// The script of registers, which have nothing to do with lines.
pub(super) static SWAP: LazyLock<Script> =
    LazyLock::new(|| Script::new(inlined(include_str!("../lua/swap.lua")).leak()));

/// The scripts of detached sessions, and of the store's id.
pub(super) static SESSION: LazyLock<Script> =
    LazyLock::new(|| Script::new(inlined(include_str!("../lua/session.lua")).leak()));
pub(super) static ID: LazyLock<Script> =
    LazyLock::new(|| Script::new(inlined(include_str!("../lua/id.lua")).leak()));

/// The script of the rounds with replicas on a full server.
pub(super) static MARK: LazyLock<Script> =
    LazyLock::new(|| Script::new(inlined(include_str!("../lua/mark.lua")).leak()));

/// The scripts of the requests that follow each other without waiting. A release that is not
/// awaited must not fall behind the next claim because the server lacks the script of the release
/// alone. So the script of a claim is the last.
fn of_claims() -> Vec<&'static Script> {
    vec![&WITHDRAW, &AMEND, &RENEW, &CLAIM]
}

/// All scripts.
#[cfg(test)]
pub(crate) static SCRIPTS: LazyLock<[&Script; 14]> = LazyLock::new(|| {
    [
        &CLAIM, &WITHDRAW, &RENEW, &LOOK, &LINE, &OBSERVE, &AMEND, &EVICT, &REQUEST, &LINES, &SWAP,
        &SESSION, &ID, &MARK,
    ]
});

/// The commands that the scripts call, in small letters. A command is in capitals between quotes:
/// the first argument of `call`, or of a function that chooses a command.
#[cfg(test)]
pub(crate) fn commands() -> BTreeSet<String> {
    let text: String = SCRIPTS.iter().flat_map(|script| script.text().lines()).collect();
    text.split('\'')
        .skip(1)
        .step_by(2)
        .filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()))
        .filter(|word| !["KEEPTTL", "SPUBLISH"].contains(word))
        .map(str::to_lowercase)
        .collect()
}

/// The script as the server gets it: with numbers in the places of its constants, and without
/// comment lines. As locals that functions share, the constants would cost time in each call, and
/// one function would have as many of these as Lua allows. Each line keeps its number, which the
/// server's messages name.
fn inlined(text: &str) -> String {
    let constants: HashMap<_, _> = text.lines().filter_map(constant).collect();
    let mut inlined = String::with_capacity(text.len());
    for line in text.lines() {
        if constant(line).is_none() && !line.trim_start().starts_with("--") {
            for piece in line.split_inclusive(|c| !is_of_word(c)) {
                let word = piece.trim_end_matches(|c| !is_of_word(c));
                inlined.push_str(constants.get(word).unwrap_or(&word));
                inlined.push_str(&piece[word.len()..]);
            }
        }
        inlined.push('\n');
    }
    inlined
}

/// The name and the number of a line `local NAME=number`.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, number) = line.strip_prefix("local ")?.split_once('=')?;
    let is_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (is_name && is_number).then_some((name, number))
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The number of a constant of `lua/record.lua`.
#[cfg(test)]
pub(super) fn number(name: &str) -> u64 {
    let found = include_str!("../lua/record.lua")
        .lines()
        .filter_map(constant)
        .find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{name} is no constant")).1.parse().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_sent_with_numbers_for_constants_and_keeps_its_lines() {
        let text = "-- FLAGS: why\nlocal FLAGS=61\nlocal FLAGS_OF='FLAGS'..x\n  -- more\nreturn byte(claim,FLAGS)%(2*FLAGS)\n";
        assert_eq!(inlined(text), "\n\nlocal FLAGS_OF='61'..x\n\nreturn byte(claim,61)%(2*61)\n");
    }

    /// Lua fails at an unknown name, and only when it gets there.
    #[test]
    fn every_name_in_capitals_is_a_constant_or_a_local() {
        let known = ["KEYS", "ARGV", "KEPT", "NO_ID", "MAX", "CLAIM_FORMAT"];
        for script in *SCRIPTS {
            let code = script.text().lines().flat_map(|line| line.split('\'').step_by(2));
            let words = code.flat_map(|code| code.split(|c| !is_of_word(c)));
            let in_capitals = words.filter(|word| word.bytes().any(|b| b.is_ascii_uppercase()));
            let unknown: Vec<_> = in_capitals.filter(|word| !known.contains(word)).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }
}
