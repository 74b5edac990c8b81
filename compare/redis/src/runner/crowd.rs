//! Many clients on one lock.

use anyhow::Result;
use compare_common::clock::MILLI;
use compare_common::runner::crowd::{Crowd, CrowdPart, CrowdRow};
use compare_common::runner::{Goal, Kind};

use crate::Bench;
use crate::kinds::{
    FAIR, FENCED, LOCKKEEPER, POSTGRES, REDIS_PY, REDIS_PY_OFTEN, REDSYNC, REDSYNC_OFTEN, RLOCK,
    RSLOCK, RSLOCK_OFTEN, RUEIDISLOCK,
};

const CROWD: CrowdPart = CrowdPart {
    kinds: &[
        LOCKKEEPER,
        POSTGRES,
        FAIR,
        RLOCK,
        FENCED,
        RUEIDISLOCK,
        RSLOCK,
        REDSYNC,
        REDIS_PY,
        RSLOCK_OFTEN,
        REDSYNC_OFTEN,
        REDIS_PY_OFTEN,
        LOCKKEEPER,
    ],
    often: &[RSLOCK_OFTEN, REDSYNC_OFTEN, REDIS_PY_OFTEN],
    raw: None,
    peer: (FAIR, "Redisson fair"),
    requests: "commands",
    first,
    measured: [500, 1200],
    goals: compared,
};

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    for clients in [8, 64] {
        CROWD.run(bench, &[0, MILLI].map(|hold| Crowd { clients, hold }), None)?;
    }
    Ok(())
}

pub(crate) fn first(kind: Kind, is_quick: bool, crowd: Crowd) -> u64 {
    match (kind.is_jvm(), is_quick, crowd.hold) {
        (true, false, 0) => 5000,
        (true, true, 0) | (true, false, _) => 1000,
        (false, false, _) => 200,
        (_, true, _) => 0,
    }
}

fn compared(rows: &[CrowdRow], crowd: Crowd) -> Vec<Goal> {
    let mut goals = Vec::new();
    if crowd.hold > 0 || crowd.clients != 8 {
        return goals;
    }
    let Some(ours) = CrowdRow::of(rows, LOCKKEEPER) else { return goals };
    if let Some(fair) = CrowdRow::of(rows, FAIR) {
        let times = ours.hand_offs.over(&fair.hand_offs);
        goals.push(Goal::at_least("hand-offs, times Redisson's fair lock", &times, 8.0));
    }
    if let Some(postgres) = CrowdRow::of(rows, POSTGRES) {
        let share = ours.hand_offs.over(&postgres.hand_offs);
        goals.push(Goal::at_least("hand-offs, of PostgreSQL's advisory locks", &share, 1.0));
    }
    goals.push(Goal::at_most("hand-off p50, ms", &ours.latency[0], 0.1));
    goals.push(Goal::at_least("Jain's index", &ours.jain, 0.99));
    goals.push(Goal::at_most("longest wait, ms", &ours.longest, 10.0));
    goals
}
