//! The check of exclusion, by the times at which guards reported the lock as held.

use super::holds::Hold;
use super::operations::{Operation, seconds};
use super::{Broken, Violation};

/// The beginning or the end of a time in which a guard reported the lock as held.
struct Edge {
    at: u64,
    /// At the same moment, ends come before beginnings.
    begins: bool,
    weight: u32,
    hold: usize,
}

/// Checks that at no moment the holders have together more permits than the smallest capacity that
/// one of them names.
pub(super) fn check(lock: &str, operations: &[Operation], holds: &[Hold]) -> Result<(), Violation> {
    let mut edges: Vec<Edge> =
        holds.iter().enumerate().flat_map(|(i, hold)| edges_of(i, hold, operations)).collect();
    edges.sort_by_key(|edge| (edge.at, edge.begins));
    let (mut believers, mut sum): (Vec<(usize, u32)>, u64) = (Vec::new(), 0);
    for edge in edges {
        if !edge.begins {
            believers.retain(|believer| *believer != (edge.hold, edge.weight));
            sum -= u64::from(edge.weight);
            continue;
        }
        sum += u64::from(edge.weight);
        let all = believers.iter().map(|(hold, _)| *hold).chain([edge.hold]);
        if all.map(|hold| holds[hold].capacity).any(|capacity| sum > u64::from(capacity)) {
            let others: Vec<String> =
                believers.iter().map(|(i, _)| believed(&holds[*i], operations)).collect();
            let because = format!("it believes beside {}", others.join(" and "));
            return Err(Violation::new(
                lock,
                Broken::Exclusion,
                &operations[holds[edge.hold].op],
                because,
            ));
        }
        believers.push((edge.hold, edge.weight));
    }
    Ok(())
}

/// The whole weight until the downgrade is requested, and the weight of a reader from then on.
fn edges_of(i: usize, hold: &Hold, operations: &[Operation]) -> Vec<Edge> {
    let shared = hold.shared.map(|op| operations[op].began).filter(|at| *at < hold.until);
    let since = hold.since(operations);
    let times = match shared {
        Some(at) => vec![(since, at, hold.weight), (at, hold.until, 1)],
        None => vec![(since, hold.until, hold.weight)],
    };
    // A hold that was never seen as held for any time excludes no other hold.
    let times = times.into_iter().filter(|(from, until, _)| from < until);
    times
        .flat_map(|(from, until, weight)| {
            [(from, true), (until, false)].map(|(at, begins)| Edge { at, begins, weight, hold: i })
        })
        .collect()
}

fn believed(hold: &Hold, operations: &[Operation]) -> String {
    format!("{}, which believed until {}", operations[hold.op], seconds(hold.until))
}
