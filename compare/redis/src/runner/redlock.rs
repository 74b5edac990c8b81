//! Locks on a majority of servers, with all servers, with a slow one, and with a dead one.

use anyhow::Result;
use compare_common::runner::alone::{AlonePart, AloneRow};
use compare_common::runner::crowd::{Crowd, CrowdPart, CrowdRow};
use compare_common::runner::{Goal, Kind, goals};

use crate::Bench;
use crate::kinds::{NODE_REDLOCK, RAW, REDLOCK, REDSYNC_REDLOCK, RSLOCK_REDLOCK};
use crate::majority::{Majority, State};

const PEERS: [Kind; 3] = [REDSYNC_REDLOCK, RSLOCK_REDLOCK, NODE_REDLOCK];

/// The yardstick is the plain client on one server.
const ALONE: AlonePart = AlonePart {
    raw: RAW,
    kinds: &[REDLOCK, REDSYNC_REDLOCK, RSLOCK_REDLOCK, NODE_REDLOCK],
    blocking: &[RAW],
    tasks: &[1],
    requests: "commands",
    work: "script",
    measured: [250, 600],
    goals: compared_alone,
};

const CROWD: CrowdPart = CrowdPart {
    kinds: &[REDLOCK, REDSYNC_REDLOCK, RSLOCK_REDLOCK, NODE_REDLOCK],
    often: &[],
    raw: None,
    peer: (REDSYNC_REDLOCK, "redsync"),
    requests: "commands",
    first,
    measured: [500, 1200],
    goals: compared_crowd,
};

/// How much higher a p99 may be with one slow or dead server: rounds differ by that.
const UNAFFECTED: f64 = 1.5;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let states = [State::All, State::Slow, State::Dead, State::Paused];
    for (servers, states) in [(3, &states[..]), (5, &states[..3])] {
        let mut all = Vec::new();
        for &state in states {
            let rows = one(bench, servers, state)?;
            if state == State::All {
                all = rows;
            } else {
                goals(&compared_with_all(&all, &rows, state));
            }
        }
    }
    Ok(())
}

/// Measures one set of servers.
fn one(bench: &mut Bench, servers: usize, state: State) -> Result<Vec<AloneRow>> {
    ALONE.kinds.iter().for_each(|kind| bench.end(*kind));
    // The earlier servers end first: their ports are free then.
    bench.servers.majority = None;
    bench.servers.majority = Some(Majority::start(servers, state)?);
    let on = format!("{servers} servers{}", state.label());
    let rows = ALONE.run(bench, Some(&on))?;
    CROWD.run(bench, &[Crowd { clients: 8, hold: 0 }], Some(&on))?;
    Ok(rows)
}

fn first(_: Kind, is_quick: bool, _: Crowd) -> u64 {
    if is_quick { 0 } else { 200 }
}

fn compared_alone(rows: &[AloneRow]) -> Vec<Goal> {
    let row = |kind| AloneRow::of(rows, kind, true);
    let best = PEERS.into_iter().filter_map(row);
    let best = best.max_by(|a, b| a.share.median().total_cmp(&b.share.median()));
    let goal = row(REDLOCK).zip(best).map(|(ours, best)| {
        let what = format!("pairs awaited, of the best peer's ({})", best.kind.label);
        Goal::at_least(what, &ours.share.over(&best.share), 1.0)
    });
    Vec::from_iter(goal)
}

fn compared_with_all(all: &[AloneRow], rows: &[AloneRow], state: State) -> Vec<Goal> {
    let row = |rows| AloneRow::of(rows, REDLOCK, true);
    let Some((before, now)) = row(all).zip(row(rows)) else { return Vec::new() };
    [("acquire", &before.lock, &now.lock), ("release", &before.release, &now.release)]
        .map(|(what, before, now)| {
            let what = format!("p99 of {what}{}, of that with all", state.label());
            Goal::at_most(what, &now[1].over(&before[1]), UNAFFECTED)
        })
        .into()
}

fn compared_crowd(rows: &[CrowdRow], _: Crowd) -> Vec<Goal> {
    let Some(ours) = CrowdRow::of(rows, REDLOCK) else { return Vec::new() };
    vec![
        Goal::at_least("hand-offs per second", &ours.hand_offs, 1000.0),
        Goal::at_most("longest wait, ms", &ours.longest, 50.0),
        Goal::at_least("Jain's index", &ours.jain, 0.95),
    ]
}
