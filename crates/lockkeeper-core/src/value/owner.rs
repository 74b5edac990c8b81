//! The owner of an attempt. It turns a wait for the owner's own guard into an error instead of a
//! deadlock.

use std::fmt;

use crate::random;

/// An identity that a program passes down a call chain.
///
/// In an asynchronous program neither a thread nor a task identifies the holder of a lock, so
/// ownership is explicit. An attempt with an owner (`Acquire::owner`) fails with
/// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) if it would wait behind a live guard of the
/// same owner in this process.
///
/// ```
/// use lockkeeper::Owner;
///
/// let me = Owner::new();
/// assert_eq!(me, me.clone());
/// assert_ne!(me, Owner::new());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// A new, random owner.
    #[allow(
        clippy::new_without_default,
        reason = "two owners are never equal, so there is no default one"
    )]
    pub fn new() -> Self {
        Self(random::bits128())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:08x})", u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]))
    }
}
