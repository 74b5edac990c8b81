//! The scripts, each in one piece. What they share is put in here, so that one call is one script.

use crate::backend::redis::wire::Script;

/// A script that begins with some files, has the line of a name in the middle and what writes it, and ends with others;
/// or without these.
macro_rules! script {
    ($($before:literal),+; $($after:literal),+) => {
        script!($($before),+, "line", "write", $($after),+)
    };
    ($($file:literal),+) => {
        Script::new(concat!(
            include_str!("../lua/start.lua"),
            $(include_str!(concat!("../lua/", $file, ".lua")),)+
        ))
    };
}

pub(super) static CLAIM: Script = script!("claim_free"; "claim");
pub(super) static WITHDRAW: Script = script!("withdraw_alone"; "withdraw");
pub(super) static RENEW: Script = script!("renew_each"; "renew", "renew_loop");
pub(super) static LOOK: Script = script!("one"; "look");
pub(super) static LINE: Script = script!("one"; "read");
pub(super) static OBSERVE: Script = script!("one"; "observe");
pub(super) static AMEND: Script = script!("one"; "amend");
pub(super) static EVICT: Script = script!("one"; "evict");
pub(super) static REQUEST: Script = script!("one"; "request");
pub(super) static LINES: Script = script!("lines_each"; "lines");
/// The same with fewer keys, for as long as a slot is on its way. They answer nothing where they do not do.
pub(super) static CLAIM_OPEN: Script = script!("claim_open", "claim_free", "claim_nothing");
pub(super) static WITHDRAW_OPEN: Script = script!("withdraw_alone", "withdraw_open");
pub(super) static RENEW_OPEN: Script = script!("renew_each", "renew_open", "renew_loop");
/// Of registers, which have nothing to do with lines.
pub(super) static SWAP: Script = Script::new(include_str!("../lua/swap.lua"));

/// All of them.
#[cfg(any(test, feature = "testing"))]
pub(in crate::backend::redis) static SCRIPTS: [&Script; 14] = [
    &CLAIM,
    &WITHDRAW,
    &RENEW,
    &LOOK,
    &LINE,
    &OBSERVE,
    &AMEND,
    &EVICT,
    &REQUEST,
    &LINES,
    &CLAIM_OPEN,
    &WITHDRAW_OPEN,
    &RENEW_OPEN,
    &SWAP,
];
