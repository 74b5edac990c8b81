//! The scripts of a node.

use lockkeeper_redis_client::wire::Script;

/// A script behind its common beginning.
macro_rules! script {
    ($($part:literal),+) => {
        Script::new(concat!(include_str!("../lua/start.lua"), $(include_str!($part)),+))
            .loaded_with(all)
    };
}

pub(crate) static CLAIM: Script = script!("../lua/claim.lua");
pub(crate) static WITHDRAW: Script = script!("../lua/hand.lua", "../lua/withdraw.lua");
pub(crate) static WAIT: Script = script!("../lua/hand.lua", "../lua/wait.lua");
pub(crate) static READ: Script = script!("../lua/read.lua");
pub(crate) static NOTE: Script = script!("../lua/note.lua");
pub(crate) static VOTE: Script = script!("../lua/id.lua");
pub(crate) static INIT: Script = script!("../lua/init.lua");
pub(crate) static KEEP: Script = script!("../lua/keep.lua");

/// A server that lacks one script gets all.
pub(crate) fn all() -> Vec<&'static Script> {
    vec![&CLAIM, &WITHDRAW, &WAIT, &READ, &NOTE, &VOTE, &INIT, &KEEP]
}
