//! Locks without contention.

use compare_common::runner::Goal;
use compare_common::runner::alone::{AlonePart, AloneRow};

use crate::kinds::{
    FAIR, FENCED, LOCKKEEPER, LOCKKEEPER_MT, RAW, REDIS_PY, REDSYNC, RLOCK, RSLOCK, RSLOCK_MT,
    RUEIDISLOCK, SCRIPTS,
};

pub(crate) const ALONE: AlonePart = AlonePart {
    raw: RAW,
    kinds: &[
        SCRIPTS,
        LOCKKEEPER,
        LOCKKEEPER_MT,
        RSLOCK,
        RSLOCK_MT,
        REDSYNC,
        RUEIDISLOCK,
        RLOCK,
        FAIR,
        FENCED,
        REDIS_PY,
    ],
    blocking: &[RAW, SCRIPTS],
    tasks: &[1, 64],
    requests: "commands",
    work: "script",
    measured: [250, 600],
    goals: compared,
};

fn compared(rows: &[AloneRow]) -> Vec<Goal> {
    let row = |kind, awaited| AloneRow::of(rows, kind, awaited);
    let mut goals = Vec::new();
    let Some(ours) = row(LOCKKEEPER, true) else { return goals };
    if let Some(rslock) = row(RSLOCK, true) {
        goals.push(Goal::at_least(
            "pairs awaited, of rslock's rate",
            &ours.share.over(&rslock.share),
            1.0,
        ));
    }
    if let Some(scripts) = row(SCRIPTS, true) {
        let share = ours.share.over(&scripts.share);
        goals.push(Goal::at_least(
            "pairs awaited, of a blocking client with the same scripts",
            &share,
            0.93,
        ));
    }
    goals.push(Goal::at_least("pairs awaited, of raw (the dream)", &ours.share, 0.9));
    if let Some(dropped) = row(LOCKKEEPER, false) {
        goals.push(Goal::at_least("guards dropped, one task, of raw awaited", &dropped.share, 1.5));
    }
    goals.push(Goal::at_most("time of the scripts for a pair, µs", &ours.work, 6.0));
    if let Some(rlock) = row(RLOCK, true) {
        goals.push(Goal::at_most(
            "the same, of Redisson's RLock",
            &ours.work.over(&rlock.work),
            1.0,
        ));
    }
    goals
}
