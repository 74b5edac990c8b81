//! Black-box tests of the program, written from its manual. Each has a store of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod contention;
mod doctor;
mod environment;
mod events;
mod exit_codes;
mod guard;
mod handles;
mod init;
mod inspect_list;
mod loss;
mod rules;
mod secrets;
mod shell;
mod stores;
mod support;
mod terminal;
