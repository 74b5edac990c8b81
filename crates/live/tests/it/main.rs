//! The integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod cli_doctor;
mod cli_doctor_etcd;
mod cli_etcd;
mod cli_everything;
mod cli_fences;
mod cli_kills;
mod cli_messages;
mod cli_outages;
mod cli_standalone;
mod cli_strays;
mod clocks;
mod cluster;
mod each_server;
mod ends;
mod etcd;
mod etcd_checks;
mod etcd_faults;
mod etcd_histories;
mod etcd_registers;
mod faults;
mod fences;
mod identity;
mod kills;
mod lists;
mod proxy;
mod redis;
mod registers;
mod rights;
mod scripts;
mod sentinel;
#[allow(dead_code, reason = "what only the contract needs")]
#[path = "../stores/servers.rs"]
mod servers;
mod support;
mod tls;
mod topologies;
mod transactions;
mod worker;
