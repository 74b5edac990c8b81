//! The independent servers of a Redlock. The last one may be slow, dead or paused.

use std::time::Duration;

use anyhow::Result;
use compare_common::runner::{Counts, Kind};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::redis::Redis;
use crate::slow::slow;

/// So late each answer of a slow server comes.
const LATE: Duration = Duration::from_millis(100);

/// What is wrong with the last server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    All,
    Slow,
    /// It refuses all connections.
    Dead,
    /// It is stopped while a measurement lasts.
    Paused,
}

impl State {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Slow => ", one of them slow (100 ms)",
            Self::Dead => ", one of them dead",
            Self::Paused => ", one of them paused (SIGSTOP)",
        }
    }
}

pub(crate) struct Majority {
    state: State,
    servers: Vec<Redis>,
    addresses: Vec<String>,
    // The last field: the folder goes after the servers.
    _dir: TempDir,
}

impl Majority {
    pub(crate) fn start(count: usize, state: State) -> Result<Self> {
        let dir = TempDir::new()?;
        let mut servers =
            (0..count).map(|_| Redis::start(dir.path())).collect::<Result<Vec<_>>>()?;
        let mut addresses: Vec<_> = servers.iter().map(Redis::address).collect();
        match state {
            State::All | State::Paused => {}
            State::Slow => addresses[count - 1] = slow(&addresses[count - 1], LATE)?,
            State::Dead => drop(servers.pop()),
        }
        Ok(Self { state, servers, addresses, _dir: dir })
    }

    pub(crate) fn url(&self) -> String {
        format!("redlock://{}", self.addresses.join(","))
    }

    /// A measurement begins or ends.
    pub(crate) fn measure(&self, begins: bool) -> Result<()> {
        match self.servers.last() {
            Some(last) if self.state == State::Paused => {
                last.signal(if begins { Signal::SIGSTOP } else { Signal::SIGCONT })
            }
            _ => Ok(()),
        }
    }

    /// The sums of the servers that answer at once.
    pub(crate) fn counts(&mut self, kind: Kind) -> Result<Counts> {
        let mut sum = Counts::default();
        let answering = self.servers.len() - usize::from(self.state == State::Paused);
        for server in &mut self.servers[..answering] {
            let counts = server.counts(kind)?;
            sum.cpu += counts.cpu;
            sum.commands += counts.commands;
            sum.micros += counts.micros;
        }
        Ok(sum)
    }
}
