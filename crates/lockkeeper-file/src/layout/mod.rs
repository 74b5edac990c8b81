//! The contents of the file, and the operations on them: plain functions of the database and the
//! time, each within one transaction of the writer (a [`Txn`]), or on a snapshot for the reader
//! ([`read`]).

pub(crate) mod claim_row;
mod leftover;
pub(crate) mod line;
mod memory;
pub(crate) mod read;
mod reap;
pub(crate) mod register;
pub(crate) mod times;
mod txn;

pub(crate) use self::memory::Memory;
pub(crate) use self::txn::{Commit, Kind, Txn};
