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
    ($name:ident, $($part:literal),+) => {
        static $name: Scripts = Scripts {
            claim: script!($name, "claim", $($part),+),
            renew: script!($name, "renew", $($part),+),
            withdraw: script!($name, "withdraw", $($part),+),
            line: script!($name, "line", $($part),+),
            amend: script!($name, "amend", $($part),+),
            evict: script!($name, "evict", $($part),+),
        };
    };
}

/// A release that is not awaited must not fall behind the next claim because the server lacks the
/// script of the release alone. So a server gets these scripts together, that of a claim last.
macro_rules! script {
    ($name:ident, $operation:literal, $($part:literal),+) => {
        Script::new(text!($operation, $($part),+))
            .loaded_with(|| vec![&$name.withdraw, &$name.amend, &$name.renew, &$name.claim])
    };
}

macro_rules! text {
    ($operation:literal, $($part:literal),+) => {
        concat!(
            include_str!("../lua/start.lua"),
            $(include_str!(concat!("../lua/", $part, ".lua")),)+
            include_str!("../lua/lines.lua"),
            include_str!(concat!("../lua/", $operation, ".lua")),
        )
    };
}

scripts!(PLAIN, "plain", "token_of_clock");
scripts!(REDISSON, "redisson", "token_of_clock");
scripts!(FENCED, "redisson", "token_of_counter");
scripts!(FAIR, "redisson", "token_of_clock", "redisson_fair");
scripts!(RW, "redisson_rw", "token_of_clock");
scripts!(SEMAPHORE, "redisson_semaphore", "token_of_clock");

/// Removes the readers that have died.
pub(super) static SWEEP: Script = Script::new(text!("sweep", "redisson_rw", "token_of_clock"));
/// Looks at a claim that waits.
pub(super) static LOOK: Script =
    Script::new(text!("look", "redisson", "token_of_clock", "redisson_fair"));
/// Detached sessions, and the id of the store.
pub(super) static SESSION: Script = Script::new(include_str!("../lua/session.lua"));
pub(super) static ID: Script = Script::new(include_str!("../lua/id.lua"));

pub(super) fn of(layout: Layout) -> &'static Scripts {
    match layout {
        Layout::Plain => &PLAIN,
        Layout::Redisson => &REDISSON,
        Layout::RedissonFenced => &FENCED,
        Layout::RedissonFair => &FAIR,
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
    let all = Layout::ALL.into_iter().flat_map(of).chain([&SWEEP, &LOOK, &SESSION, &ID]);
    let text: String = all.flat_map(|script| script.text().lines()).collect();
    text.split("call('")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .map(str::to_lowercase)
        .collect()
}
