//! The commands, one file each.

pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod handle;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod run;
