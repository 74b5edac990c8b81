//! What is written down: one entry when an operation begins, one when it ends, one for each look at a held lock.

use serde::{Deserialize, Serialize};

use crate::FencingToken;

/// One line of a history. As JSON it is one object on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in nanoseconds of the clock that all recorders of the history share.
    pub at: u64,
    /// Which recorder: numbers of operations are its own.
    pub process: String,
    /// Which operation.
    pub op: u64,
    /// What of it.
    pub what: What,
}

/// What an entry says of its operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It begins: nothing of it has happened before.
    Call {
        /// Who does it, for people.
        client: String,
        /// On which lock.
        lock: String,
        /// What it does.
        call: Call,
    },
    /// It ended: whatever happens later is not its doing, unless the outcome is unknown.
    Return(Outcome),
    /// The lock that this operation got was looked at, and was believed in.
    Holds {
        /// Until when its holder may go on believing if no renewal is acknowledged any more.
        until: u64,
    },
}

/// What an operation does. `of` is the operation that the guard came from: an `Acquire` or an `Upgrade`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Asks for the lock.
    Acquire {
        /// How much of it; its whole capacity to have it alone.
        weight: u32,
        /// How much there is, as the claim knows, where claims of one lock know different numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
        /// Whether it stands in line. One that does not is a try.
        waits: bool,
        /// Whether nothing went wrong on its way, so that a refusal has to have a reason.
        sure: bool,
        /// In whose name, where one owner may have it more than once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u64>,
    },
    /// Gives it back, and waits for the answer.
    Release {
        /// The guard.
        of: u64,
    },
    /// Drops the guard: it is given back some time later.
    Drop {
        /// The guard.
        of: u64,
    },
    /// Shares from now on what it had alone.
    Downgrade {
        /// The guard, which stays.
        of: u64,
    },
    /// Asks to have alone what it shares. If granted, the guard is this operation's from now on.
    Upgrade {
        /// The guard.
        of: u64,
        /// As in `Acquire`.
        sure: bool,
    },
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has the lock.
    Granted {
        /// Its number.
        token: FencingToken,
    },
    /// Others have the lock, or wait for it.
    Refused,
    /// It was done.
    Done,
    /// The lock had been lost before.
    Lost,
    /// An error, or nobody waited for the answer: it may have happened, or happen later, or never.
    Unknown,
}
