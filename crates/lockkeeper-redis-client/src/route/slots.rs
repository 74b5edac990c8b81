//! The answers of a cluster about its slots.

use redis::Value;

use crate::wire::{Endpoint, WireError, text};

/// How many slots there are.
pub(super) const SLOTS: usize = 16_384;

/// A redirection to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    pub(super) to: Endpoint,
}

impl Redirect {
    /// Reads `-MOVED 3999 host:port` or `-ASK …` from `node`. If the host is missing, it is that of
    /// `node`.
    pub(super) fn parse(error: &WireError, node: &Endpoint) -> Option<Self> {
        let WireError::Server { message, .. } = error else { return None };
        let mut words = message.split(' ');
        let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = match host.trim_matches(['[', ']']) {
            "" | "?" => node.host.clone(),
            host => host.to_owned(),
        };
        Some(Self { slot, to: Endpoint { host, port: port.parse().ok()? } })
    }
}

/// The slots of one master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Endpoint,
}

/// Reads the answer of `node` to `CLUSTER SLOTS`. Leaves out ranges that make no sense.
pub(super) fn parse(answer: &Value, node: &Endpoint) -> Vec<Range> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    ranges.iter().filter_map(|range| parse_range(range, node)).collect()
}

fn parse_range(range: &Value, node: &Endpoint) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    let host = match text(host) {
        None | Some("" | "?") => node.host.clone(),
        Some(host) => host.to_owned(),
    };
    let master = Endpoint { host, port: u16::try_from(*port).ok()? };
    Some(Range { first: slot(first)?, last: slot(last)?, master })
}
