//! The scripts. Each is one text: the beginning, the functions of its layout, and the operation.

use super::Layout;
use crate::wire::Script;

/// The scripts of one layout.
pub(super) struct Scripts {
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) withdraw: Script,
    pub(super) line: Script,
    pub(super) amend: Script,
    pub(super) evict: Script,
}

macro_rules! scripts {
    ($name:ident, $layout:literal, $token:literal) => {
        static $name: Scripts = Scripts {
            claim: script!($name, $layout, $token, "claim"),
            renew: script!($name, $layout, $token, "renew"),
            withdraw: script!($name, $layout, $token, "withdraw"),
            line: script!($name, $layout, $token, "line"),
            amend: script!($name, $layout, $token, "amend"),
            evict: script!($name, $layout, $token, "evict"),
        };
    };
}

/// A release that is not awaited must not fall behind the next claim because the server lacks the
/// script of the release alone. So a server gets these scripts together, that of a claim last.
macro_rules! script {
    ($name:ident, $layout:literal, $token:literal, $operation:literal) => {
        Script::new(text!($layout, $token, $operation))
            .loaded_with(|| vec![&$name.withdraw, &$name.amend, &$name.renew, &$name.claim])
    };
}

macro_rules! text {
    ($layout:literal, $token:literal, $operation:literal) => {
        concat!(
            include_str!("../lua/start.lua"),
            include_str!(concat!("../lua/", $layout, ".lua")),
            include_str!(concat!("../lua/token_of_", $token, ".lua")),
            include_str!("../lua/lines.lua"),
            include_str!(concat!("../lua/", $operation, ".lua")),
        )
    };
}

scripts!(PLAIN, "plain", "clock");
scripts!(REDISSON, "redisson", "clock");
scripts!(FENCED, "redisson", "counter");
scripts!(RW, "redisson_rw", "clock");
scripts!(SEMAPHORE, "redisson_semaphore", "clock");

/// Removes the readers that have died.
pub(super) static SWEEP: Script = Script::new(text!("redisson_rw", "clock", "sweep"));
/// Detached sessions, and the id of the store.
pub(super) static SESSION: Script = Script::new(include_str!("../lua/session.lua"));
pub(super) static ID: Script = Script::new(include_str!("../lua/id.lua"));

pub(super) fn of(layout: Layout) -> &'static Scripts {
    match layout {
        Layout::Plain => &PLAIN,
        Layout::Redisson => &REDISSON,
        Layout::RedissonFenced => &FENCED,
        Layout::RedissonRw => &RW,
        Layout::RedissonSemaphore => &SEMAPHORE,
    }
}

/// The commands that the scripts call, in small letters. A command is in capitals between quotes.
#[cfg(test)]
pub(crate) fn commands() -> std::collections::BTreeSet<String> {
    let of = |layout| {
        let Scripts { claim, renew, withdraw, line, amend, evict } = of(layout);
        [claim, renew, withdraw, line, amend, evict]
    };
    let all = Layout::ALL.into_iter().flat_map(of).chain([&SWEEP, &SESSION, &ID]);
    let text: String = all.flat_map(|script| script.text().lines()).collect();
    text.split("call('")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .map(str::to_lowercase)
        .collect()
}
