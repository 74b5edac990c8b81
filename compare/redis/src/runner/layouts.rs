//! lockkeeper on the layouts of other libraries, beside these libraries.

use anyhow::Result;
use compare_common::clock::MILLI;
use compare_common::runner::alone::{AlonePart, AloneRow};
use compare_common::runner::crowd::{Crowd, CrowdPart, CrowdRow};
use compare_common::runner::{Goal, Kind};

use crate::Bench;
use crate::kinds::{
    FENCED, PLAIN, RAW, REDIS_PY, REDISLOCK, REDISSON, REDISSON_FENCED, REDISSON_READ, REDISSON_RW,
    REDSYNC, RLOCK, RSLOCK, SCRIPTS_PLAIN, SCRIPTS_REDISSON,
};

/// Each layout of Redisson, and Redisson itself on it.
const PAIRS: [(Kind, Kind); 3] =
    [(REDISSON, RLOCK), (REDISSON_FENCED, FENCED), (REDISSON_RW, REDISSON_READ)];

const ALONE: AlonePart = AlonePart {
    raw: RAW,
    kinds: &[
        SCRIPTS_PLAIN,
        PLAIN,
        SCRIPTS_REDISSON,
        REDISSON,
        REDISSON_FENCED,
        REDISSON_RW,
        RLOCK,
        FENCED,
        REDISSON_READ,
        RSLOCK,
        REDSYNC,
        REDISLOCK,
        REDIS_PY,
    ],
    blocking: &[RAW, SCRIPTS_PLAIN, SCRIPTS_REDISSON],
    tasks: &[1],
    requests: "commands",
    work: "script",
    measured: [250, 600],
    goals: compared_alone,
};

const CROWD: CrowdPart = CrowdPart {
    kinds: &[PLAIN, REDISSON, REDISSON_FENCED, RLOCK, FENCED, RSLOCK, REDSYNC, REDISLOCK, REDIS_PY],
    often: &[],
    raw: None,
    peer: (RLOCK, "Redisson RLock"),
    requests: "commands",
    first: crate::crowd::first,
    measured: [500, 1200],
    goals: compared_crowd,
};

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    ALONE.run(bench, Some("the layouts of other libraries"))?;
    for clients in [8, 64] {
        CROWD.run(bench, &[Crowd { clients, hold: 0 }], Some("the layouts of other libraries"))?;
    }
    CROWD.run(bench, &[Crowd { clients: 8, hold: MILLI }], Some("the layouts of other libraries"))
}

fn compared_alone(rows: &[AloneRow]) -> Vec<Goal> {
    let row = |kind| AloneRow::of(rows, kind, true);
    let mut goals = Vec::new();
    if let (Some(ours), Some(scripts)) = (row(PLAIN), row(SCRIPTS_PLAIN)) {
        let share = ours.share.over(&scripts.share);
        let what = "plain: pairs awaited, of a blocking client with the same scripts";
        goals.push(Goal::at_least(what, &share, 0.95));
    }
    for (ours, theirs) in PAIRS {
        if let (Some(own), Some(peer)) = (row(ours), row(theirs)) {
            let what = format!("{}: pairs awaited, times those of {}", ours.label, theirs.label);
            goals.push(Goal::at_least(what, &own.share.over(&peer.share), 2.0));
        }
    }
    goals
}

fn compared_crowd(rows: &[CrowdRow], _: Crowd) -> Vec<Goal> {
    let row = |kind| CrowdRow::of(rows, kind);
    let times = |(ours, theirs): (Kind, Kind)| {
        let what = format!("{}: hand-offs, times those of {}", ours.label, theirs.label);
        Some(Goal::at_least(what, &row(ours)?.hand_offs.over(&row(theirs)?.hand_offs), 1.0))
    };
    PAIRS.into_iter().filter_map(times).collect()
}
