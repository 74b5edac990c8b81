//! What the store keeps in etcd: the names of the keys, and their values.
//!
//! `keys` and `session_keys` have the names of the keys, `record` and `session` the values of
//! claims and sessions. `contender` is a key of a line that was read, and `transaction` builds
//! requests.

mod contender;
mod keys;
mod leaver;
mod record;
mod session;
mod session_keys;
mod span;
#[cfg(test)]
mod tests;
pub(super) mod transaction;
mod wall_clock;

pub(super) use self::contender::{Contender, admissions, ahead_of, is_as_it_was, mark};
pub(super) use self::keys::Lines;
pub(super) use self::leaver::{Leaver, LeaverState};
pub(super) use self::record::{Keep, Notice, NoticeKind, Record};
pub(super) use self::session::SessionRecord;
pub(super) use self::session_keys::{Missed, SessionPart};
pub(super) use self::span::{Incarnation, Span};
pub(super) use self::wall_clock::{millis, unix_ms};

/// Whose keys the store writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// The layout of lockkeeper: all kinds of locks, with owners and reasons that people can read.
    #[default]
    Native,
    /// The layout of the mutex of Go's `concurrency` package, of `etcdctl lock`, and of the clients
    /// of etcd's lock service, such as jetcd: exclusive locks and elections, shared with all of
    /// them.
    Concurrency,
}

/// The first lease of a session in the native layout, without a path.
#[cfg(test)]
pub(super) fn lease_of(id: &crate::store::SessionId) -> i64 {
    Lines::new(Layout::Native, None).lease_of(id)
}

impl Layout {
    /// What the layouts are called in a URL.
    pub const NAMES: [&str; 2] = ["native", "concurrency"];

    /// What this layout is called in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Concurrency => "concurrency",
        }
    }

    /// The layout of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "native" => Some(Self::Native),
            "concurrency" => Some(Self::Concurrency),
            _ => None,
        }
    }
}
