//! Black-box tests of the program, written from its manual. Each has a store of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod contention;
mod environment;
mod events;
mod exit_codes;
mod guard;
mod init;
mod inspect_list;
mod loss;
mod rules;
mod stores;
mod support;
mod terminal;
