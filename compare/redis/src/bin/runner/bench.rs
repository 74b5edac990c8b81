//! The servers, the clients, and one measurement of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use compare_redis::clock::{MILLI, SECOND, nanos, sleep_until};
use compare_redis::order::{Go, Order};
use compare_redis::trace::{self, Cycle};
use tempfile::TempDir;

use crate::kinds::{Kind, Program};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::redis::{Counts, Redis};
use crate::report::Report;

/// Who still waits so long after the end gives up.
pub(crate) const PATIENCE: u64 = 3 * SECOND;

pub(crate) struct Bench {
    redis: Redis,
    postgres: Option<Postgres>,
    fleets: HashMap<Kind, Vec<Process>>,
    programs: PathBuf,
    only: Vec<String>,
    pub(crate) is_quick: bool,
    pub(crate) report: Report,
    /// Kinds that failed, and are left out from then on.
    failed: Vec<Kind>,
    /// No two measurements share a lock.
    locks: u32,
    // Last, so that it goes when the servers are gone.
    dir: TempDir,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) own: bool,
    pub(crate) awaited: bool,
    /// Nanoseconds.
    pub(crate) hold: u64,
    pub(crate) every: u64,
    pub(crate) warm: u64,
    pub(crate) measured: u64,
}

impl Spec {
    /// One task of one client, that awaits its releases.
    pub(crate) fn of(kind: Kind) -> Self {
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

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Of the server, in this time; PostgreSQL has its processor time only.
    pub(crate) server: Counts,
    /// Processor time of the clients, in nanoseconds.
    pub(crate) client_cpu: u64,
}

impl Seen {
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / SECOND as f64
    }

    /// Cycles that were granted in this time.
    pub(crate) fn within(&self) -> impl Iterator<Item = &Cycle> {
        self.cycles.iter().filter(|cycle| (self.start..self.end).contains(&cycle.granted))
    }
}

impl Bench {
    pub(crate) fn start(options: &Options) -> Result<Self> {
        // Traces are small, and must not wait for a disk.
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory)? } else { TempDir::new()? };
        Ok(Self {
            redis: Redis::start(dir.path())?,
            postgres: Postgres::start(dir.path())?,
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

    pub(crate) fn versions(&mut self) -> Result<String> {
        let versions = std::fs::read_to_string(self.programs.join("versions")).unwrap_or_default();
        Ok(format!("redis-server {}; {}", self.redis.version()?, versions.trim()))
    }

    pub(crate) fn redis(&mut self) -> &mut Redis {
        &mut self.redis
    }

    /// Whether it was asked for, is there, and has not failed.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        if self.failed.contains(&kind) {
            return false;
        }
        let exists = match kind.program {
            Program::Rust => !kind.is_postgres() || self.postgres.is_some(),
            Program::Go => self.programs.join("go-client").exists(),
            Program::Java => self.programs.join("java/classes").exists(),
            Program::Python => self.programs.join("python/client.py").exists(),
        };
        let base = kind.name.strip_suffix("-mt").unwrap_or(kind.name);
        exists && (self.only.is_empty() || self.only.iter().any(|only| only == kind.name || only == base))
    }

    /// A name that was not used before.
    pub(crate) fn fresh_lock(&mut self) -> String {
        self.locks += 1;
        format!("compare-{}", self.locks)
    }

    /// Ends all clients of a kind.
    pub(crate) fn end(&mut self, kind: Kind) {
        self.fleets.remove(&kind);
    }

    /// So many clients of a kind, started when they are first wanted.
    pub(crate) fn fleet(&mut self, kind: Kind, clients: usize) -> Result<&mut [Process]> {
        let processes = if kind.is_jvm() { 1 } else { clients };
        let url = match &self.postgres {
            Some(postgres) if kind.is_postgres() => postgres.url(),
            _ => self.redis.url(),
        };
        let fleet = self.fleets.entry(kind).or_default();
        while fleet.len() < processes {
            fleet.push(Process::start(kind, &self.programs, &url)?);
        }
        Ok(&mut fleet[..processes])
    }

    /// Nothing if the clients fail: that is said, they are ended, and the others go on.
    pub(crate) fn attempt<T>(&mut self, kind: Kind, what: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
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

    pub(crate) fn measure(&mut self, spec: &Spec) -> Result<Seen> {
        let lock = self.fresh_lock();
        self.measure_on(spec, lock)
    }

    /// On a lock of this name, or on locks whose names begin with it.
    pub(crate) fn measure_on(&mut self, spec: &Spec, lock: String) -> Result<Seen> {
        let kind = spec.kind;
        let dir = self.dir.path().to_owned();
        let fleet = self.fleet(kind, spec.clients)?;
        let start = nanos() + spec.warm;
        let end = start + spec.measured;
        let mut traces = Vec::new();
        for (number, process) in fleet.iter_mut().enumerate() {
            let trace = dir.join(format!("trace-{number}"));
            process.order(&Order::Go(go(spec, &lock, number, end, trace.display().to_string())))?;
            traces.push(trace);
        }
        sleep_until(start);
        let (start, before) = (nanos(), self.sample(spec)?);
        sleep_until(end);
        let (end, after) = (nanos(), self.sample(spec)?);
        let limit = Duration::from_nanos(PATIENCE) + Duration::from_secs(30);
        for process in self.fleet(kind, spec.clients)? {
            process.done(limit)?;
        }
        let mut cycles = Vec::new();
        for (number, path) in traces.iter().enumerate() {
            let number = number as u64;
            cycles.extend(trace::read(path)?.into_iter().map(|c| Cycle { client: c.client + number, ..c }));
            std::fs::remove_file(path)?;
        }
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

    /// What the server has counted so far, and the processor time of the clients.
    fn sample(&mut self, spec: &Spec) -> Result<(Counts, u64)> {
        let server = if spec.kind.is_postgres() {
            let cpu = self.postgres.as_ref().context("there is no PostgreSQL")?.cpu()?;
            Counts { cpu, ..Counts::default() }
        } else {
            self.redis.counts(spec.kind)?
        };
        let fleet = self.fleet(spec.kind, spec.clients)?;
        let clients = fleet.iter().map(Process::cpu).sum::<Result<u64>>()?;
        Ok((server, clients))
    }
}

fn go(spec: &Spec, lock: &str, number: usize, end: u64, trace: String) -> Go {
    Go {
        // Processes that have locks of their own must not share them either.
        lock: if spec.own && spec.clients > 1 { format!("{lock}-{number}") } else { lock.to_owned() },
        own: spec.own,
        clients: if spec.kind.is_jvm() { spec.clients } else { 1 },
        tasks: spec.tasks,
        awaited: spec.awaited,
        hold: spec.hold,
        every: spec.every,
        end,
        patience: PATIENCE,
        trace,
    }
}
