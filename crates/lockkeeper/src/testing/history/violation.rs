//! What is said of a history that cannot be.

use std::fmt;

use super::operations::Operation;

/// The first operation of a history that a lock which keeps its promises cannot explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// On which lock.
    pub lock: String,
    /// What it breaks.
    pub broken: Broken,
    /// Who did what, when.
    pub operation: String,
    /// When that was known.
    pub at: u64,
    /// Why it cannot be.
    pub because: String,
}

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Believers had more than there is.
    Exclusion,
    /// A token came twice, or went back.
    Token,
    /// There is no order in which it could have happened.
    Order,
    /// The search was given up: neither right nor wrong.
    Undecided,
    /// The entries do not fit each other.
    Nonsense,
}

impl Violation {
    pub(super) fn new(lock: &str, broken: Broken, operation: &Operation, because: impl Into<String>) -> Self {
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
