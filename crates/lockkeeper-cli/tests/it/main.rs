//! Black-box tests of the program, written from its manual. Each has a store of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod break_lock;
mod check;
mod config;
mod contention;
mod doctor;
mod each_option;
mod elect;
mod environment;
mod errors;
mod event_targets;
mod events;
mod exit_codes;
mod guard;
mod handles;
mod holding;
mod init;
mod inspect_list;
mod loss;
mod modes;
mod options;
mod recipes;
mod rules;
mod secrets;
mod several;
mod shell;
mod signals;
mod stores;
mod support;
mod terminal;
mod waiting;
mod watch;
