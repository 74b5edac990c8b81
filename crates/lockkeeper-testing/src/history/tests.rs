//! Tests of the checker: histories written by hand, good and bad, and random histories against a
//! search of every order.

mod against_all_orders;
mod by_hand;
mod simulated;

use super::{Call, Entry, History, Outcome, What};
use lockkeeper::store::MAX;

/// A history that a test writes operation by operation.
#[derive(Default)]
struct Script {
    entries: Vec<Entry>,
    operations: u64,
}

impl Script {
    /// An operation from one time to another; without an outcome it never ended. Returns its
    /// number.
    fn op(&mut self, (from, to): (u64, u64), call: Call, outcome: Option<Outcome>) -> u64 {
        self.operations += 1;
        let client = format!("client {}", self.operations);
        self.entry(from, self.operations, What::Call { client, lock: "m".to_owned(), call });
        if let Some(outcome) = outcome {
            self.entry(to, self.operations, What::Return(outcome));
        }
        self.operations
    }

    fn entry(&mut self, at: u64, op: u64, what: What) {
        self.entries.push(Entry { at, process: "p".to_owned(), op, what });
    }

    fn got(&mut self, times: (u64, u64), weight: u32, token: u64) -> u64 {
        self.op(times, acquire(weight, true), Some(granted(token)))
    }

    /// The guard reports the lock as held at `at`, and may report it until `until`.
    fn holds(&mut self, op: u64, at: u64, until: u64) {
        self.entry(at, op, What::Holds { until });
    }

    fn released(&mut self, times: (u64, u64), of: u64) {
        self.op(times, Call::Release { of }, Some(Outcome::Done));
    }

    fn refused(&mut self, times: (u64, u64), weight: u32) {
        self.op(times, acquire(weight, false), Some(Outcome::Refused));
    }

    fn history(&self) -> History {
        History::new(self.entries.clone())
    }
}

fn acquire(weight: u32, waits: bool) -> Call {
    Call::Acquire { weight, of: None, waits, sure: true, owner: None }
}

fn granted(token: u64) -> Outcome {
    Outcome::Granted { token: token.to_string().parse().unwrap() }
}

/// The whole capacity of a lock.
const ALL: u32 = MAX;
