//! A cluster node's view of the other nodes: the lines of `CLUSTER NODES`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};

use super::Redis;
use crate::port;

/// One node's view.
#[derive(Debug)]
pub(super) struct View(Vec<Line>);

#[derive(Debug)]
struct Line {
    id: String,
    port: u16,
    flags: Vec<String>,
    /// The id of the node's master.
    master: String,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    pub(super) fn of(node: &Redis) -> Result<Self> {
        let text: String = node.query(&["CLUSTER", "NODES"])?;
        let lines = text
            .lines()
            .map(|line| Line::parse(line).with_context(|| format!("what is {line:?}?")));
        Ok(Self(lines.collect::<Result<_>>()?))
    }

    /// The port of the node that serves a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        self.0
            .iter()
            .find(|line| line.slots.iter().any(|range| range.contains(&slot)))
            .map(|line| line.port)
    }

    /// The slots and the ports of their owners.
    pub(super) fn shares(&self) -> BTreeSet<(u16, u16, u16)> {
        let mut shares = BTreeSet::new();
        for line in &self.0 {
            shares.extend(line.slots.iter().map(|slots| (*slots.start(), *slots.end(), line.port)));
        }
        shares
    }

    pub(super) fn is_replica_of_me(&self, port: u16) -> bool {
        let me = self.0.iter().find(|line| line.is("myself"));
        self.0.iter().any(|line| line.port == port && me.is_some_and(|me| me.id == line.master))
    }

    /// Returns whether the node knows this many masters and replicas, and no failed node.
    pub(super) fn is_whole(&self, masters: usize, replicas: usize) -> bool {
        let is_well = |line: &Line| {
            !["handshake", "fail", "fail?", "noaddr"].iter().any(|flag| line.is(flag))
        };
        let count =
            |flag: &str| self.0.iter().filter(|line| is_well(line) && line.is(flag)).count();
        count("master") == masters
            && count("slave") == replicas
            && self.0.len() == masters + replicas
    }
}

impl Line {
    /// `id ip:port@bus,host flags master ping pong epoch link slot…`
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (id, position, flags, master) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        // Some versions show the port for clients without TLS here, which a server with TLS does
        // not have. So the port comes from the bus.
        let port = port::of_bus(position.split('@').nth(1)?.split(',').next()?.parse().ok()?)?;
        // A slot in brackets is moving from one node to another.
        let slots = words
            .skip(4)
            .filter(|word| !word.starts_with('['))
            .map(slots)
            .collect::<Option<_>>()?;
        let flags = flags.split(',').map(str::to_owned).collect();
        Some(Self { id: id.to_owned(), port, flags, master: master.to_owned(), slots })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }
}

/// A word such as `7` or `0-5460`.
fn slots(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
