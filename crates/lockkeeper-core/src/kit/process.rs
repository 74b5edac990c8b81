//! Whether this process is the one that opened a store, or a fork of that process.

use std::fmt;

use crate::{Error, ErrorKind, Result};

/// A namespace gives its first processes the ids from 1 on, so an older id is rarely given again.
const FIRST_IDS: u32 = 300;

/// The process that opened a store. A fork has the memory of that process, but neither its threads
/// nor a right to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    id: u32,
    /// The number of the namespace that has given the id, if it is known.
    namespace: Option<u64>,
}

impl Process {
    /// This process. The call takes some microseconds.
    pub fn this() -> Self {
        Self { id: std::process::id(), namespace: namespace() }
    }

    /// The process of this id, for tests.
    pub const fn of(id: u32) -> Self {
        Self { id, namespace: None }
    }

    /// Whether this process has the id of this value. The call is cheap, and takes one child for
    /// its parent: a child with the same id in a namespace of its own.
    pub fn is_this(self) -> bool {
        self.id == std::process::id()
    }

    /// Whether both values are of the same process: they have the same id in the same namespace.
    pub fn is(self, other: Self) -> bool {
        let differ = |(one, other)| one != other;
        self.id == other.id && !self.namespace.zip(other.namespace).is_some_and(differ)
    }

    /// As [`is_this`](Self::is_this). The namespaces are compared too where the first process of a
    /// namespace, or one of the next, may have the id.
    pub fn is_this_in_its_namespace(self) -> bool {
        self.is_this() && (self.id >= FIRST_IDS || self.is(Self::this()))
    }

    /// Refuses to use a value of another process: `opened`, which is a `what` ("store").
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a fork of the process.
    pub fn check(self, opened: &impl fmt::Display, what: &str) -> Result<()> {
        if self.is_this_in_its_namespace() {
            return Ok(());
        }
        let problem = format!("{opened} was opened by the process that this one was forked from");
        Err(Error::new(ErrorKind::Forked, problem)
            .with_remedy(format!("open a {what} after the fork")))
    }
}

/// `None` without /proc.
#[cfg(target_os = "linux")]
fn namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino())
}

#[cfg(not(target_os = "linux"))]
fn namespace() -> Option<u64> {
    None
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

    /// The first process of a container, and the first process of a namespace that it makes.
    #[test]
    fn a_process_with_the_same_id_in_another_namespace_is_another() {
        let process = |id, namespace| Process { id, namespace };
        let first = process(1, Some(10));
        assert!(first.is(first) && first.is(process(1, None)));
        assert!(!first.is(process(1, Some(11))) && !first.is(process(2, Some(10))));
        assert!(Process::this().is(Process::this()));
    }
}
