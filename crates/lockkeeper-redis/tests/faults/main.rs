//! A Redis server, its clients, and the network between them fail, each test in one way with a
//! name. These tests start servers and processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod cuts;
mod failover;
mod fences;
mod holds;
mod identity;
mod kleppmann;
mod late;
mod lists;
mod long_lines;
mod long_lists;
mod messages;
mod pauses;
mod random_waits;
mod refusals;
mod registers;
mod replies;
mod restarts;
mod rights;
mod scripts;
mod sessions;
mod several_clients;
mod support;
mod tls;
mod topologies;
mod transactions;
mod waiters;
mod worker;

lockkeeper_live::fault_suite! {
    store = lockkeeper_live::RedisServer;
    lacks = [];
    left_out = 0
}
