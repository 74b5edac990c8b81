//! The commands, one file each.

pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod run;
