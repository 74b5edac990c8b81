//! The entries of a history: one when an operation begins, one when it ends, one for each look at a
//! held lock.

use serde::{Deserialize, Serialize};

use lockkeeper::FencingToken;

/// One line of a history. As JSON it is one object on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time in nanoseconds of the clock that all recorders of the history share.
    pub at: u64,
    /// The recorder. It numbers its own operations.
    pub process: String,
    /// The number of the operation.
    pub op: u64,
    /// The event of the operation.
    pub what: What,
}

/// The event of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The operation begins. The operation has had no effect before.
    Call {
        /// The client, as a text for people.
        client: String,
        /// The name of the lock.
        lock: String,
        /// The call.
        call: Call,
    },
    /// The operation has ended. The operation has no effect later, unless its outcome is unknown.
    Return(Outcome),
    /// A look at the lock that this operation acquired: the guard reported it as held.
    Holds {
        /// The time until which the guard may report the lock as held if no further renewal is
        /// acknowledged.
        until: u64,
    },
}

/// The call of an operation. `of` is the operation that the guard came from: an `Acquire` or an
/// `Upgrade`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Acquires the lock.
    Acquire {
        /// The weight. The whole capacity makes the holder exclusive.
        weight: u32,
        /// The capacity that the claim names, if the claims of one lock name different capacities.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
        /// Whether the attempt waits in line. Otherwise it is a single try.
        waits: bool,
        /// Whether no fault can happen to the request. Then a refusal must have a reason.
        sure: bool,
        /// The owner, if one owner may hold the lock more than once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u64>,
    },
    /// Releases the lock, and waits for the answer.
    Release {
        /// The guard.
        of: u64,
    },
    /// Drops the guard: the lock is released some time later.
    Drop {
        /// The guard.
        of: u64,
    },
    /// Makes an exclusive holder a shared one.
    Downgrade {
        /// The guard, which the holder keeps.
        of: u64,
    },
    /// Makes a shared holder the exclusive one. If it succeeds, the guard belongs to this operation
    /// from now on.
    Upgrade {
        /// The guard.
        of: u64,
        /// Whether no fault can happen to the request, as in `Acquire`.
        sure: bool,
    },
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The operation acquired the lock.
    Granted {
        /// The fencing token of the grant.
        token: FencingToken,
    },
    /// Other claims hold the lock, or wait for it.
    Refused,
    /// The operation was done.
    Done,
    /// The lock had been lost before.
    Lost,
    /// An error, or an operation that was not awaited: the operation may have taken effect, may do
    /// so later, or never.
    Unknown,
}
