//! The keys that requests of this client delete, and up to which state.

use bytes::Bytes;

/// A key that a request deletes, as it was in one state. A later state of the key is another claim,
/// or a claim that another client has changed, which a deletion leaves alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaver {
    pub(crate) key: Bytes,
    pub(crate) state: LeaverState,
}

/// The state of a key that a request deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeaverState {
    /// As this revision has created it, whatever has changed it since: only one client changes it.
    Created(i64),
    /// As this revision has written it: another client of a detached session may change it.
    Changed(i64),
}
