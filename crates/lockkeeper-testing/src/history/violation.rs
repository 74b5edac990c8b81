//! The report about a history that cannot be explained.

use std::fmt;

use super::operations::Operation;

/// The first operation that no lock which keeps its promises can explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The lock.
    pub lock: String,
    /// The promise that is broken.
    pub broken: Broken,
    /// The operation: its client, its call, its time.
    pub operation: String,
    /// The time at which the violation is certain.
    pub at: u64,
    /// The reason.
    pub because: String,
}

/// The promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The guards that reported the lock as held had together more than its capacity.
    Exclusion,
    /// A token was given twice, or was lower than an earlier token.
    Token,
    /// No order of the operations is possible for a lock.
    Order,
    /// The search was given up, so the result is open.
    Undecided,
    /// The entries contradict each other.
    Nonsense,
}

impl Violation {
    pub(super) fn new(
        lock: &str,
        broken: Broken,
        operation: &Operation,
        because: impl Into<String>,
    ) -> Self {
        let at = operation.ended.unwrap_or(operation.began);
        let (lock, operation) = (lock.to_owned(), operation.to_string());
        Self { lock, broken, operation, at, because: because.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, broken, operation, because, .. } = self;
        write!(f, "lock {lock:?}: {broken:?}: {operation}: {because}")
    }
}

impl std::error::Error for Violation {}
