//! Many clients on one lock.

use anyhow::Result;
use compare_common::runner::crowd::{Crowd, CrowdPart, CrowdRow};
use compare_common::runner::{Goal, Kind};

use crate::Bench;
use crate::alone::ALONE;
use crate::etcd::{Etcd, debian};
use crate::kinds::{GO, JETCD, LOCKKEEPER, LOCKS, PEERS, SHARED, V3LOCK};

const CROWD: CrowdPart = CrowdPart {
    kinds: &[LOCKKEEPER, LOCKKEEPER, SHARED, GO, V3LOCK, JETCD],
    often: &[],
    raw: Some(&ALONE),
    peer: (GO, "Go"),
    requests: "messages",
    first,
    measured: [600, 1600],
    goals: compared,
};

/// Runs the part on the current etcd and on Debian's etcd.
pub(crate) fn run(bench: &mut Bench, members: usize) -> Result<()> {
    on_this(bench)?;
    if let Some(program) = debian() {
        let current = bench.move_to(Etcd::start(&program, members)?);
        on_this(bench)?;
        bench.move_to(current);
    }
    Ok(())
}

fn on_this(bench: &mut Bench) -> Result<()> {
    let on = bench.servers.description();
    CROWD.run(bench, &[Crowd { clients: 8, hold: 0 }], Some(&on))?;
    LOCKS.into_iter().for_each(|kind| bench.end(kind));
    Ok(())
}

fn first(kind: Kind, is_quick: bool, _: Crowd) -> u64 {
    match (kind.is_jvm(), is_quick) {
        (true, true) => 1500,
        (true, false) => 3000,
        _ => 300,
    }
}

fn compared(rows: &[CrowdRow], _: Crowd) -> Vec<Goal> {
    let mut goals = Vec::new();
    let row = |kind| CrowdRow::of(rows, kind);
    let peers = PEERS.into_iter().filter_map(row);
    let Some(best) = peers.max_by(|a, b| a.hand_offs.median().total_cmp(&b.hand_offs.median()))
    else {
        return goals;
    };
    for ours in [LOCKKEEPER, SHARED].into_iter().filter_map(row) {
        let what = format!(
            "{}: hand-offs, times those of the fastest peer ({})",
            ours.kind.label, best.kind.label
        );
        goals.push(Goal::at_least(what, &ours.hand_offs.over(&best.hand_offs), 10.0));
        goals.push(Goal::at_least(format!("{}: Jain's index", ours.kind.label), &ours.jain, 0.99));
    }
    goals
}
