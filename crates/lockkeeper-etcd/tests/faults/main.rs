//! etcd, its leases and its members fail, each test in one way with a name. These tests start
//! servers and processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod by_hand;
mod checks;
mod closes;
mod compaction;
mod crowds;
mod ghosts;
mod histories;
mod identity;
mod keeps;
mod key_slots;
mod leaders;
mod leavings;
mod lists;
mod lookups;
mod lost_timers;
mod moves;
mod neighbours;
mod overdue;
mod paths;
mod reconnects;
mod registers;
mod releases;
mod reopened;
mod resent;
mod rights;
mod sessions;
mod shared;
mod shared_leases;
mod short_lines;
mod support;
mod takeovers;
mod timers;
mod tokens;
mod tombstones;
mod unpolled;

lockkeeper_live::fault_suite! {
    store = lockkeeper_live::EtcdServer;
    lacks = [Clock];
    left_out = 7
}
