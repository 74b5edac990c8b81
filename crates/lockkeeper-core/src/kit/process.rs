//! Whether this process is the one that opened a store, or a fork of that process.

use std::fmt;

use crate::{Error, ErrorKind, Result};

/// The process that opened a store. A fork has the memory of that process, but neither its threads
/// nor a right to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This process.
    pub fn this() -> Self {
        Self(std::process::id())
    }

    /// The process of this id, for tests.
    pub const fn of(id: u32) -> Self {
        Self(id)
    }

    /// Whether this process is the process of this value.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Refuses to use a value of another process: `opened`, which is a `what` ("store").
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a fork of the process.
    pub fn check(self, opened: &impl fmt::Display, what: &str) -> Result<()> {
        if self.is_this() {
            return Ok(());
        }
        let problem = format!("{opened} was opened by the process that this one was forked from");
        Err(Error::new(ErrorKind::Forked, problem)
            .with_remedy(format!("open a {what} after the fork")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_has_opened_is_refused_with_the_remedy() {
        assert_eq!(Process::this().check(&"redis://h", "store"), Ok(()));
        let error = Process::of(std::process::id().wrapping_add(1))
            .check(&"redis://h", "store")
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.remedy()),
            (ErrorKind::Forked, Some("open a store after the fork"))
        );
        assert!(error.message().starts_with("redis://h was opened"), "{error}");
    }
}
