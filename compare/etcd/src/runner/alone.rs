//! Locks without contention.

use compare_common::runner::Goal;
use compare_common::runner::alone::{AlonePart, AloneRow};

use crate::kinds::{LOCKKEEPER, LOCKS, PEERS, RAW, SHARED};

pub(crate) const ALONE: AlonePart = AlonePart {
    raw: RAW,
    kinds: &LOCKS,
    blocking: &[],
    tasks: &[1, 64],
    requests: "messages",
    work: "disk",
    measured: [300, 700],
    goals: compared,
};

fn compared(rows: &[AloneRow]) -> Vec<Goal> {
    let row = |kind| AloneRow::of(rows, kind, true);
    let mut goals = Vec::new();
    for kind in [LOCKKEEPER, SHARED] {
        let Some(ours) = row(kind) else { continue };
        goals.push(Goal::at_least(
            format!("{}: pairs awaited, of raw", kind.label),
            &ours.share,
            0.9,
        ));
        let peers = PEERS.into_iter().filter_map(row);
        if let Some(best) = peers.max_by(|a, b| a.share.median().total_cmp(&b.share.median())) {
            let what =
                format!("{}: pairs awaited, of the best peer's ({})", kind.label, best.kind.label);
            goals.push(Goal::at_least(what, &ours.share.over(&best.share), 1.0));
        }
    }
    goals
}
