//! The times of each cycle: 40 bytes, five numbers in little endian.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::clock::nanos;

/// One lock and release, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    /// The number of the client object in the process; the runner numbers the clients of all
    /// processes.
    pub client: u64,
    /// `lock` was called.
    pub asked: u64,
    /// `lock` returned, so the holder knows of the grant. 0: it never returned.
    pub granted: u64,
    /// `release` was called.
    pub gave: u64,
    /// `release` returned.
    pub done: u64,
}

const SIZE: usize = 40;

/// The cycles of one task.
#[derive(Debug)]
pub struct Log {
    cycles: Vec<Cycle>,
    current: Cycle,
}

impl Log {
    /// An empty log.
    pub fn new(client: usize) -> Self {
        Self {
            cycles: Vec::with_capacity(1 << 16),
            current: Cycle { client: client as u64, ..Cycle::default() },
        }
    }

    /// Notes the moment before `lock`.
    pub fn ask(&mut self) {
        self.current.asked = nanos();
    }

    /// Notes the moment after `lock`.
    pub fn grant(&mut self) {
        self.current.granted = nanos();
    }

    /// Notes the moment before `release`.
    pub fn give(&mut self) {
        self.current.gave = nanos();
    }

    /// Notes the moment after `release`.
    pub fn done(&mut self) {
        self.current.done = nanos();
        self.cycles.push(self.current);
    }

    /// Notes that the task gave up waiting.
    pub fn stuck(&mut self) {
        let Cycle { client, asked, .. } = self.current;
        self.cycles.push(Cycle { client, asked, ..Cycle::default() });
    }

    /// The recorded cycles.
    pub fn into_cycles(self) -> Vec<Cycle> {
        self.cycles
    }
}

/// Writes a trace.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(path: &Path, cycles: &[Cycle]) -> Result<()> {
    let mut bytes = Vec::with_capacity(cycles.len() * SIZE);
    for Cycle { client, asked, granted, gave, done } in cycles {
        for number in [client, asked, granted, gave, done] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a trace.
///
/// # Errors
///
/// The file cannot be read, or ends in the middle of a cycle.
pub fn read(path: &Path) -> Result<Vec<Cycle>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len() % SIZE == 0, "{} ends in the middle of a cycle", path.display());
    let (words, _) = bytes.as_chunks::<8>();
    let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (cycles, _) = numbers.as_chunks::<5>();
    Ok(cycles
        .iter()
        .map(|&[client, asked, granted, gave, done]| Cycle { client, asked, granted, gave, done })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() -> Result<()> {
        let mut log = Log::new(7);
        for _ in 0..3 {
            log.ask();
            log.grant();
            log.give();
            log.done();
        }
        log.ask();
        log.stuck();
        let cycles = log.into_cycles();
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("trace");
        write(&path, &cycles)?;
        assert_eq!(read(&path)?, cycles);
        assert_eq!(cycles.iter().filter(|cycle| cycle.granted == 0).count(), 1);
        Ok(())
    }
}
