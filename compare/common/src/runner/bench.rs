//! The servers, the clients, and one measurement of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::{Kind, Options, Process, Program, Report};
use crate::clock::{MILLI, SECOND, nanos, sleep_until};
use crate::order::{Go, Order};
use crate::trace::{self, Cycle};

/// The servers of the clients.
pub trait Servers {
    /// The URL for the clients of a kind.
    fn url(&self, kind: Kind) -> String;
    /// Whether there is a server for this kind.
    fn has(&self, kind: Kind) -> bool;
    /// The counts of the server of a kind so far.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    fn counts(&mut self, kind: Kind) -> Result<Counts>;

    /// A measurement of clients of this kind begins. They have connected.
    ///
    /// # Errors
    ///
    /// The servers cannot be prepared.
    fn begin(&mut self, _kind: Kind) -> Result<()> {
        Ok(())
    }

    /// The measured time is over.
    ///
    /// # Errors
    ///
    /// The servers cannot be restored.
    fn finish(&mut self, _kind: Kind) -> Result<()> {
        Ok(())
    }

    /// The memory of the data in the server of lockkeeper, in bytes, if it is known.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    fn memory(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// The counts of a server so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Processor time, in nanoseconds.
    pub cpu: u64,
    /// Commands that clients sent.
    pub commands: u64,
    /// The time that the server counts for the commands, in microseconds.
    pub micros: u64,
}

/// Servers, and their clients.
#[derive(Debug)]
pub struct Bench<S> {
    /// The servers.
    pub servers: S,
    fleets: HashMap<Kind, Vec<Process>>,
    programs: PathBuf,
    only: Vec<String>,
    /// Whether the run is too short for figures.
    pub is_quick: bool,
    /// Raw figures.
    pub report: Report,
    /// The kinds that have failed. They are left out from then on.
    failed: Vec<Kind>,
    /// The number of names used so far: no two measurements share a lock.
    locks: u32,
    // The last field: the folder goes after the servers.
    dir: TempDir,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The measured client.
    pub kind: Kind,
    /// The number of clients.
    pub clients: usize,
    /// The number of tasks of each client.
    pub tasks: usize,
    /// Each task has a lock of its own.
    pub own: bool,
    /// Whether a task waits for the answer to its release.
    pub awaited: bool,
    /// For how long a lock is held, in nanoseconds.
    pub hold: u64,
    /// The interval between the beginnings of two cycles, in nanoseconds; 0: without a pause.
    pub every: u64,
    /// The time before the measurement, in nanoseconds.
    pub warm: u64,
    /// The measured time, in nanoseconds.
    pub measured: u64,
}

impl Spec {
    /// A task that still waits this long after the end gives up.
    pub const TIME_LIMIT: u64 = 3 * SECOND;

    /// One task of one client. It waits for the answers to its releases.
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            clients: 1,
            tasks: 1,
            own: true,
            awaited: true,
            hold: 0,
            every: 0,
            warm: 100 * MILLI,
            measured: SECOND,
        }
    }
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Seen {
    /// All cycles.
    pub cycles: Vec<Cycle>,
    /// When the measured time began.
    pub start: u64,
    /// When it was over.
    pub end: u64,
    /// The counts of the server in this time.
    pub server: Counts,
    /// Processor time of the clients, in nanoseconds.
    pub client_cpu: u64,
}

impl Seen {
    /// The length of the measured time.
    pub fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / SECOND as f64
    }

    /// Cycles that were granted in this time.
    pub fn within(&self) -> impl Iterator<Item = &Cycle> {
        self.cycles.iter().filter(|cycle| (self.start..self.end).contains(&cycle.granted))
    }
}

impl<S: Servers> Bench<S> {
    /// Starts the servers, with a folder in memory.
    ///
    /// # Errors
    ///
    /// They do not start, or a file cannot be written.
    pub fn start(options: &Options, servers: impl FnOnce(&Path) -> Result<S>) -> Result<Self> {
        // Traces are small, and must not wait for a disk.
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory)? } else { TempDir::new()? };
        Ok(Self {
            servers: servers(dir.path())?,
            fleets: HashMap::new(),
            programs: options.programs.clone(),
            only: options.only.clone(),
            is_quick: options.is_quick,
            report: Report::create(&options.json)?,
            failed: Vec::new(),
            locks: 0,
            dir,
        })
    }

    /// Goes on with other servers and new clients; returns the previous servers.
    pub fn move_to(&mut self, servers: S) -> S {
        self.fleets.clear();
        self.failed.clear();
        std::mem::replace(&mut self.servers, servers)
    }

    /// The versions of the peers, from `run`.
    pub fn versions(&self) -> String {
        std::fs::read_to_string(self.programs.join("versions"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// Whether the kind is selected, available, and has not failed.
    pub fn has(&self, kind: Kind) -> bool {
        if self.failed.contains(&kind) {
            return false;
        }
        let exists = match kind.program {
            Program::Rust => true,
            Program::Go => self.programs.join("go-client").exists(),
            Program::Java => self.programs.join("java/classes").exists(),
            Program::Python => self.programs.join("python/client.py").exists(),
            Program::Node => self.programs.join("node/client.mjs").exists(),
        };
        let base = kind.name.strip_suffix("-mt").unwrap_or(kind.name);
        let is_wanted =
            self.only.is_empty() || self.only.iter().any(|only| only == kind.name || only == base);
        exists && is_wanted && self.servers.has(kind)
    }

    /// A name that no measurement has used.
    pub fn fresh_lock(&mut self) -> String {
        self.locks += 1;
        format!("compare-{}", self.locks)
    }

    /// Ends all clients of a kind.
    pub fn end(&mut self, kind: Kind) {
        self.fleets.remove(&kind);
    }

    /// This many clients of a kind. They are started at their first use.
    ///
    /// # Errors
    ///
    /// The clients cannot be started.
    pub fn fleet(&mut self, kind: Kind, clients: usize) -> Result<&mut [Process]> {
        let processes = if kind.is_jvm() { 1 } else { clients };
        let url = self.servers.url(kind);
        let fleet = self.fleets.entry(kind).or_default();
        while fleet.len() < processes {
            fleet.push(Process::start(kind, &self.programs, &url)?);
        }
        Ok(&mut fleet[..processes])
    }

    /// Sends an order to the first client of a kind; returns the text after `done`. For orders that
    /// measure nothing.
    ///
    /// # Errors
    ///
    /// The client fails, or does not answer in time.
    pub fn instruct(&mut self, kind: Kind, order: &Order, within: Duration) -> Result<String> {
        let [process] = self.fleet(kind, 1)? else { return Ok(String::new()) };
        process.order(order)?;
        process.done(within)
    }

    /// The file for the cycles of a client.
    pub fn trace(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("trace-{number}"))
    }

    /// Runs a measurement. `None` if the clients fail: this reports the failure and ends them, and
    /// the other clients go on.
    pub fn attempt<T>(
        &mut self,
        kind: Kind,
        what: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Option<T> {
        if self.failed.contains(&kind) {
            return None;
        }
        match what(self) {
            Ok(seen) => Some(seen),
            Err(error) => {
                eprintln!("run: {} is left out: {error:#}", kind.name);
                self.end(kind);
                self.failed.push(kind);
                None
            }
        }
    }

    /// Measures on unused locks.
    ///
    /// # Errors
    ///
    /// A client fails, or the server does not answer.
    pub fn measure(&mut self, spec: &Spec) -> Result<Seen> {
        let lock = self.fresh_lock();
        self.measure_on(spec, lock)
    }

    /// Measures on the lock of this name, or on locks whose names begin with it.
    ///
    /// # Errors
    ///
    /// As [`measure`](Self::measure).
    pub fn measure_on(&mut self, spec: &Spec, lock: String) -> Result<Seen> {
        let kind = spec.kind;
        let clients = self.fleet(kind, spec.clients)?.len();
        let traces: Vec<_> = (0..clients).map(|number| self.trace(number)).collect();
        self.servers.begin(kind)?;
        let start = nanos() + spec.warm;
        let end = start + spec.measured;
        for (number, (process, trace)) in
            self.fleet(kind, spec.clients)?.iter_mut().zip(&traces).enumerate()
        {
            process.order(&Order::Go(go(spec, &lock, number, end, trace.display().to_string())))?;
        }
        sleep_until(start);
        let (start, before) = (nanos(), self.sample(spec)?);
        sleep_until(end);
        let (end, after) = (nanos(), self.sample(spec)?);
        self.servers.finish(kind)?;
        let limit = Duration::from_nanos(Spec::TIME_LIMIT) + Duration::from_secs(30);
        for process in self.fleet(kind, spec.clients)? {
            process.done(limit)?;
        }
        let cycles = read(&traces)?;
        ensure!(!cycles.is_empty(), "{} did nothing", kind.name);
        Ok(Seen {
            cycles,
            start,
            end,
            server: Counts {
                cpu: after.0.cpu - before.0.cpu,
                commands: after.0.commands - before.0.commands,
                micros: after.0.micros - before.0.micros,
            },
            client_cpu: after.1 - before.1,
        })
    }

    /// The counts of the server so far, and the processor time of the clients.
    fn sample(&mut self, spec: &Spec) -> Result<(Counts, u64)> {
        let server = self.servers.counts(spec.kind)?;
        let fleet = self.fleet(spec.kind, spec.clients)?;
        let clients = fleet.iter().map(Process::cpu).sum::<Result<u64>>()?;
        Ok((server, clients))
    }
}

/// The cycles of all processes. Each process has clients of its own.
fn read(traces: &[PathBuf]) -> Result<Vec<Cycle>> {
    let mut cycles = Vec::new();
    for (number, path) in traces.iter().enumerate() {
        let number = number as u64;
        cycles.extend(
            trace::read(path)?.into_iter().map(|c| Cycle { client: c.client + number, ..c }),
        );
        std::fs::remove_file(path)?;
    }
    Ok(cycles)
}

fn go(spec: &Spec, lock: &str, number: usize, end: u64, trace: String) -> Go {
    Go {
        // Processes whose tasks have their own locks must not share these locks either.
        lock: if spec.own && spec.clients > 1 {
            format!("{lock}-{number}")
        } else {
            lock.to_owned()
        },
        own: spec.own,
        clients: if spec.kind.is_jvm() { spec.clients } else { 1 },
        tasks: spec.tasks,
        awaited: spec.awaited,
        hold: spec.hold,
        every: spec.every,
        most: 0,
        end,
        limit: Spec::TIME_LIMIT,
        trace,
    }
}
