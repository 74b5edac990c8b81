//! Long histories of a simulated lock, which are good, and which one changed entry makes bad.

use std::time::Instant;

use super::super::{Broken, Outcome, Rules, What};
use super::{Script, acquire, granted};
use crate::{Seeded, history::Call};
use lockkeeper::store::MAX;

/// The next step of a client.
#[derive(Clone, Copy)]
enum Next {
    Ask,
    Get { op: u64, weight: u32 },
    Receive { op: u64, token: u64 },
    GiveBack { of: u64 },
    Free { op: u64, of: u64 },
    Learn { op: u64 },
}

/// Clients acquire and release a lock. Each client takes each step at a time of its own.
fn play(seed: u64, clients: usize, operations: u64) -> Script {
    let (mut seed, mut script) = (Seeded::new(seed), Script::default());
    let mut next = vec![Next::Ask; clients];
    let (mut held, mut tokens, mut weights, mut at) =
        (0_u64, 0, std::collections::HashMap::new(), 0);
    while script.operations < operations || next.iter().any(|next| !matches!(next, Next::Ask)) {
        at += 1;
        let who = usize::try_from(seed.below(clients as u64)).unwrap();
        next[who] = match next[who] {
            Next::Ask if script.operations >= operations => Next::Ask,
            Next::Ask => {
                let weight = if seed.happens(300) { MAX } else { 1 };
                Next::Get { op: script.op((at, 0), acquire(weight, true), None), weight }
            }
            Next::Get { op, weight } if held + u64::from(weight) <= u64::from(MAX) => {
                held += u64::from(weight);
                tokens += 1;
                weights.insert(op, weight);
                Next::Receive { op, token: tokens }
            }
            Next::Get { op, weight } => Next::Get { op, weight },
            Next::Receive { op, token } => {
                script.entry(at, op, What::Return(granted(token)));
                Next::GiveBack { of: op }
            }
            Next::GiveBack { of } => {
                Next::Free { op: script.op((at, 0), Call::Release { of }, None), of }
            }
            Next::Free { op, of } => {
                held -= u64::from(weights[&of]);
                Next::Learn { op }
            }
            Next::Learn { op } => {
                script.entry(at, op, What::Return(Outcome::Done));
                Next::Ask
            }
        };
    }
    script
}

#[test]
fn long_histories_are_found_good_quickly() {
    for (clients, operations) in [(8, 10_000), (64, 10_000)] {
        let history = play(1, clients, operations).history();
        let start = Instant::now();
        let summary = history.check("m", &Rules::exclusive()).unwrap();
        assert!(start.elapsed().as_secs() < 20, "{:?} for {summary:?}", start.elapsed());
        eprintln!("{clients} clients: {summary:?} in {:?}", start.elapsed());
        assert!(summary.operations >= 10_000);
    }
}

#[test]
fn a_grant_that_came_too_early_is_named() {
    for seed in 0..20 {
        let mut script = play(seed, 8, 2_000);
        let last = script.operations + 1;
        // In the middle one claim gets the whole lock, though others hold it before and after.
        let middle = script.entries[script.entries.len() / 2].at;
        script.op((middle, middle + 1), acquire(MAX, true), Some(granted(1 << 40)));
        let start = Instant::now();
        let violation = script.history().check("m", &Rules::exclusive()).unwrap_err();
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
        assert_ne!(violation.broken, Broken::Undecided, "{violation}");
        assert!(
            violation.broken == Broken::Token
                || violation.operation.contains(&format!("operation {last} "))
        );
    }
}

#[test]
fn two_tokens_that_changed_places_are_found() {
    for seed in 0..20 {
        let mut script = play(seed, 8, 2_000);
        let writers: Vec<usize> = script
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| is_grant(&e.what))
            .map(|(i, _)| i)
            .collect();
        let (a, b) = (writers[writers.len() / 2], writers[writers.len() / 2 + 20]);
        let what = script.entries[a].what.clone();
        script.entries[a].what = std::mem::replace(&mut script.entries[b].what, what);
        let violation = script.history().check("m", &Rules::exclusive()).unwrap_err();
        assert!([Broken::Token, Broken::Order].contains(&violation.broken), "{violation}");
    }
}

fn is_grant(what: &What) -> bool {
    matches!(what, What::Return(Outcome::Granted { .. }))
}
