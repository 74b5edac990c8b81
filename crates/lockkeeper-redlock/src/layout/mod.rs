//! What a node keeps: the requests to the scripts, and their answers.

mod answers;
mod keys;
mod lines;
mod requests;
mod scripts;
mod texts;

pub(crate) use self::answers::{
    Kept, NodeAnswer, Waited, born, counted, foreign_answer, kept, noted, voted, waited,
};
pub(crate) use self::keys::{BORN_KEY, Keys, channel};
pub(crate) use self::lines::{Holder, NodeLine, lines};
pub(crate) use self::requests::{
    ClaimRequest, Counts, Keeping, claim, init, keep, note, read, vote, wait, withdraw,
};
pub(crate) use self::scripts::all as scripts;
pub(crate) use self::texts::{Texts, by_and_reason};
