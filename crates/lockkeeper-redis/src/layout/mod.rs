//! The native layout: the arguments of the scripts, and what their answers say. Nothing here does
//! I/O.
//!
//! `lua/record.lua` says how a line is kept. A line with one claim is one short string. The waiters
//! are in two side keys. A claim that is granted because another claim has left learns of the grant
//! by a push to the channel that it named.

mod admin;
mod bytes;
mod channel;
mod claim;
mod id;
mod keys;
mod line;
mod mark;
mod meta;
mod register;
mod renew;
mod scripts;
mod session;
mod status;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

pub(crate) use self::admin::{
    Victim, amend, amend_answer, evict, evict_answer, find, holders, holders_answer, lines,
    lines_answer, pattern, request_answer, request_release,
};
use self::bytes::Reader;
pub(crate) use self::channel::{Channel, ClientId, Push, changes_channel, name_of_channel, pushed};
pub(crate) use self::claim::{claim, claim_answer};
pub(crate) use self::id::{ID_KEY, ID_MARK, id, id_answer};
pub(crate) use self::keys::{Keys, slot};
pub(crate) use self::line::{is_longer, line, line_answer, observe, observe_answer};
pub(crate) use self::mark::mark_even_if_full;
pub(crate) use self::register::{KeyLocation, load, load_answer, swap, swap_answer};
pub(crate) use self::renew::{renew, renew_answer, withdraw, withdraw_answer};
#[cfg(test)]
pub(crate) use self::scripts::commands;
pub(crate) use self::session::{SESSION_KEYS, SessionKey};
pub(crate) use self::status::{ClaimStatus, look, look_answer};
use crate::Result;
use crate::store::Revision;

/// The byte of a line with one claim, ALONE: 16 times the number of the layout (2), plus the form.
const ALONE: u8 = 33;

/// The state of a line: the last token, twice the number of waiters plus the number of holders, and
/// how often the line was touched. While the token stays, the second number only falls, and the
/// third only rises until the line is empty.
struct Seen {
    last: f64,
    left: f64,
    touched: f64,
}

impl Seen {
    fn read(read: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { last: read.f64()?, left: read.f64()?, touched: read.f64()? })
    }

    fn revision(&self) -> Revision {
        let mut hash = DefaultHasher::new();
        [self.last, self.left, self.touched].map(f64::to_bits).hash(&mut hash);
        Revision(hash.finish())
    }
}

/// In microseconds, rounded up; exact for more than a century.
fn micros(time: Duration) -> f64 {
    time.as_nanos().div_ceil(1000) as f64
}

/// In milliseconds, rounded up.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}
