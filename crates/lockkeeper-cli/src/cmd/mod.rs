//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod break_lock;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod handle;
pub(crate) mod inspect;
pub(crate) mod leader;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod watch;
