//! The clients of Redis: those of a simple key, and Redlock.

mod client;
mod kind;
mod pairs;
mod quorum;
