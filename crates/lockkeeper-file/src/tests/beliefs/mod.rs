//! A model of what clients believe, on virtual time. Requests of several processes run on a real
//! file, one after the other. Answers are lost, processes die, the machine is restarted, and power
//! cuts take the commits that did not have to be on the disk. After each step the model compares
//! what the clients believe with what the locks allow.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use lockkeeper_testing::history::Seed;
use tempfile::TempDir;

use crate::boot::{self, Boot};
use crate::database::{self, Database};
use crate::fault::Outcome;
use crate::files::Rights;
use crate::layout::read::{self, ClaimStatus};
use crate::layout::{Commit, Kind, Memory, Txn};
use crate::liveness::{ClientId, Clients, DeadClientCheck};
use crate::store::admit::{Admission, Demand};
use crate::store::{
    Amend, Amended, Claim, ClaimId, ClaimKey, Evict, Live, LiveState, MAX, Renewal, SessionId,
    SessionSpec, TOMBSTONE_MIN, Target, Verdict,
};
use crate::time::believed;
use crate::{Error, ErrorKind, LockName};

mod changes;
mod check;
mod claims;
mod renewals;
mod restarts;
mod world;

/// The steps of a history.
const STEPS: usize = 1500;
/// As many steps before a failure are shown.
const SHOWN: usize = 80;
/// A second, in the µs of the file.
const S: i64 = 1_000_000;

/// A generator (xorshift) whose state is never 0.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A process with the store open.
struct Proc {
    id: ClientId,
    _file: File,
    memory: Memory,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    InFlight,
    Queued,
    Granted,
}

/// A claim, as its client knows it.
#[derive(Clone, Debug)]
struct Cl {
    claim: Claim,
    weight: u32,
    stage: Stage,
    token: u64,
    /// The client believes until then.
    deadline: i64,
    dead: bool,
    released: bool,
    sent: bool,
    /// An answer was lost, so a withdrawal leaves a tombstone.
    unsettled: bool,
    /// The end of its minimum hold.
    keep_until: i64,
    /// The end of its lock-delay.
    cool_until: i64,
    /// The number of its last change.
    change: u64,
    /// The client does not know what has become of it.
    uncertain: bool,
}

/// A client of a session.
struct Agent {
    session: SessionId,
    spec: SessionSpec,
    /// The process of one that is not detached.
    proc: Option<usize>,
    /// When the last request was sent that has proven the session.
    proven: Option<i64>,
    gone: bool,
    claims: Vec<Cl>,
}

/// The machine with its file, and all clients. Clients of detached sessions are elsewhere.
struct World {
    dir: TempDir,
    db: Option<Database>,
    clients: Clients,
    rng: Rng,
    /// The date, and the date of the last start.
    t: i64,
    boot_start: i64,
    boots: u32,
    /// The contents of the file since the last commit that had to be on the disk: a power cut
    /// leaves one of them.
    snaps: Vec<Vec<u8>>,
    procs: Vec<Proc>,
    agents: Vec<Agent>,
    closed: HashSet<String>,
    evicted: HashSet<ClaimId>,
    withdrawn: Vec<(Claim, i64)>,
    tokens: HashMap<String, u64>,
    log: Vec<String>,
}

fn us(d: Duration) -> i64 {
    d.as_micros() as i64
}

impl World {
    fn step(&mut self) {
        self.pass();
        let agents = self.agents.len();
        let a = if agents == 0 { 0 } else { agents - 1 - self.rng.below(agents.min(6)) };
        let what = self.rng.below(100);
        if agents == 0 || what < 3 {
            return self.open();
        }
        let claims = self.agents[a].claims.len();
        let usable: Vec<usize> = (0..claims)
            .filter(|c| {
                let cl = &self.agents[a].claims[*c];
                !cl.released && (!cl.dead || cl.cool_until > self.t)
            })
            .collect();
        let c = match usable.len() {
            0 if claims == 0 => 0,
            0 => self.rng.below(claims),
            n => usable[self.rng.below(n)],
        };
        match what {
            3..=25 => self.claim(a),
            26..=55 => self.renew(a),
            56..=63 => self.look(a),
            64..=65 => self.late_copy(),
            66 => self.kill(),
            67..=68 => self.new_proc(),
            69 if self.rng.one_in(2) => self.restart(),
            70 => self.adopt(a),
            71 if self.rng.one_in(3) => self.close(a),
            _ if claims == 0 => {}
            72..=76 => self.send(a, c),
            77..=88 => self.withdraw(a, c),
            89..=94 => self.amend(a, c),
            95..=96 => self.upgrade(a, c),
            97 => self.evict(a, c),
            _ => {}
        }
        self.check();
    }

    fn show(&self) {
        for line in self.log.iter().skip(self.log.len().saturating_sub(SHOWN)) {
            eprintln!("{line}");
        }
    }
}

#[test]
fn nobody_believes_too_long_in_any_history() {
    let histories = if std::env::var_os("LOCKKEEPER_ALL").is_some() { 100 } else { 4 };
    for seed in Seed::several(histories) {
        let _sown = seed.sow();
        let mut world = World::new(seed.number());
        let ran = catch_unwind(AssertUnwindSafe(|| {
            (0..STEPS).for_each(|_| world.step());
            world.clean_up();
        }));
        if let Err(panic) = ran {
            world.show();
            resume_unwind(panic);
        }
    }
}
