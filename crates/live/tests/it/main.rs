//! The program on servers, and the starters of servers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod cli_doctor;
mod cli_doctor_etcd;
mod cli_etcd;
mod cli_everything;
mod cli_fences;
mod cli_kills;
mod cli_layouts;
mod cli_messages;
mod cli_outages;
mod cli_redlock;
mod cli_standalone;
mod cli_strays;
mod cli_tls;
mod clocks;
mod cluster;
mod ends;
mod etcd;
mod proxy;
mod redis;
mod rights;
mod sentinel;
mod simple_lock;
mod support;
