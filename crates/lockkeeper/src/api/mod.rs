//! The public interface around the kinds of locks: the keeper and its builder, an attempt, a guard,
//! a handle, what is shown of locks, and the operations for administrators.

pub(crate) mod acquire;
pub(crate) mod acquiring;
pub(crate) mod admin;
pub(crate) mod builder;
pub(crate) mod finish;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod info;
pub(crate) mod keeper;
pub(crate) mod requested;
pub(crate) mod session_watch;
pub(crate) mod watch;
