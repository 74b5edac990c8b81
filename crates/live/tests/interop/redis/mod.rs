//! The clients of Redis: those of a simple key, those of Redisson's layouts, and Redlock.

mod client;
mod kind;
mod outcomes;
mod pairs;
mod quorum;
mod redisson;
mod served;
mod us;
