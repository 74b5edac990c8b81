//! Storms: several processes with many tasks take a few locks for any time, while the servers fail.
//! The history checker and a witness independent of lockkeeper watch them.
//!
//! Each runs for 20 s. `cargo xtask storm NAME --seconds N --seed S` runs one for as long as you
//! like.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod cluster;
mod cluster_kills;
mod etcd;
mod fenced;
mod file;
mod findings;
mod play;
mod redlock;
mod sentinel;
mod witness;
