//! A Redis server, its clients, and the network between them fail, each test in one way with a
//! name. These tests start servers and processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod clients;
mod clocks;
mod cuts;
mod failover;
mod fences;
mod holds;
mod identity;
mod kills;
mod kleppmann;
mod lists;
mod long_lines;
mod messages;
mod pauses;
mod refusals;
mod registers;
mod replies;
mod restarts;
mod rights;
mod scripts;
#[allow(dead_code, reason = "what only the contract needs")]
#[path = "../stores/servers.rs"]
mod servers;
mod sessions;
mod several_clients;
mod silence;
mod support;
mod tls;
mod topologies;
mod transactions;
mod waiters;
mod worker;
