//! Ports without a listener.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

const FIRST: u32 = 10_000;

/// The port for the cluster bus of a node is this much above its port for clients. Before Redis 7
/// this distance is fixed.
const BUS: u16 = 10_000;

/// The port between nodes that belongs to a port for clients.
pub(crate) fn bus(port: u16) -> u16 {
    port + BUS
}

/// The port for clients that belongs to a port between nodes.
pub(crate) fn of_bus(port: u16) -> Option<u16> {
    port.checked_sub(BUS)
}

/// A free port of 127.0.0.1, below the ports of outgoing connections. Otherwise a client that tries
/// to reach a server that is down could get the server's own port, connect to itself, and keep the
/// server from coming back. The [`bus`] of the port is free too.
///
/// Another process may take the port before the caller uses it. So the caller checks whether it got
/// the port, and otherwise asks again.
///
/// # Errors
/// If there is no free port.
pub(crate) fn free() -> Result<u16> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // No port is the bus of another port.
    let range = (first_outgoing().saturating_sub(FIRST) / 2).clamp(1, BUS.into());
    for _ in 0..range {
        // Each process begins at another port, and gives a port again only after a full round.
        let number =
            process::id().wrapping_mul(101).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let Ok(port) = u16::try_from(FIRST + number % range) else { continue };
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free(port) && is_free(bus(port)) {
            return Ok(port);
        }
    }
    bail!("no port of 127.0.0.1 is free between {FIRST} and {}", FIRST + range)
}

/// The first port of outgoing connections.
fn first_outgoing() -> u32 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|first| *first > FIRST + 1000).unwrap_or(32_768)
}
