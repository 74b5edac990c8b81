//! Histories of what clients did, and a check whether a lock that keeps its promises can have
//! produced them.
//!
//! A [`Recorder`] writes down when each operation began and ended, its outcome, and each look of a
//! holder at its lock. [`History::check`] then decides three things for each lock:
//!
//! **Exclusion**, by what the guards *reported*: at no moment the guards that report the lock as
//!   held have together more than its capacity.
//! - **Tokens**: no token was given twice, and an operation that began after another had ended got
//!   a higher token.
//! - **Linearizability**: the operations fit one order, each at some moment between its beginning
//!   and its end. In that order a lock of the simplest kind would have given the same answers. See
//!   [`Effect`] for that lock.
//!
//! The check assumes the best for everything that is unknown. An operation without an answer may
//! have taken effect at any time after its beginning, or never. A lock that was lost, or whose
//! holder was killed, may have been free at any time after the last look that found it held.
//!
//! A [`Plan`] lets several clients do random operations on one lock. The [`Seed`] of the run is
//! printed, and repeats the run.
//!
//! A [`Violation`] names the first operation that cannot be explained.

mod contestant;
mod entry;
mod exclusion;
mod holds;
mod linear;
mod operations;
pub mod processes;
mod recorder;
mod rules;
mod search;
mod seed;
mod steps;
#[cfg(test)]
mod tests;
mod tokens;
mod uses;
mod violation;
mod walk;
mod walker;

use std::collections::{BTreeSet, HashSet};
use std::io::{self, BufRead};

pub use self::contestant::{Ask, Contestant, Held, Kind, LibraryClient};
pub use self::entry::{Call, Entry, Outcome, What};
pub use self::recorder::Recorder;
pub use self::rules::Rules;
pub use self::search::{Answer, linearize};
pub use self::seed::{SEED, Seed};
pub use self::steps::{Effect, HoldId, Lock, Step};
use self::uses::Uses;
pub use self::violation::{Broken, Violation};
pub use self::walk::Plan;
pub use self::walker::{Habits, Walker};

/// The recorded entries, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
}

/// The numbers of a history that passed the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of operations, ended or not.
    pub operations: usize,
    /// The number of grants.
    pub grants: usize,
    /// The number of operations whose outcome is unknown.
    pub unknown: usize,
    /// The number of grants without an explicit release: the lock was lost, the guard was dropped,
    /// or the holder left no further record.
    pub lost: usize,
    /// The number of refusals that had to have a reason, and had one.
    pub refusals: usize,
}

/// The numbers of a history that passed the check.
impl History {
    /// The history of these entries.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Reads JSON Lines. A killed process may leave an incomplete last line, which is ignored.
    ///
    /// # Errors
    /// `InvalidData` for a line that is not an entry. The message names its number.
    pub fn read(mut from: impl BufRead) -> io::Result<Self> {
        let (mut entries, mut line, mut number) = (Vec::new(), String::new(), 0_usize);
        while from.read_line(&mut line)? > 0 && line.ends_with('\n') {
            number += 1;
            let wrong = |e| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("line {number} is no entry: {e}"),
                )
            };
            entries.push(serde_json::from_str(&line).map_err(wrong)?);
            line.clear();
        }
        Ok(Self { entries })
    }

    /// Writes JSON Lines.
    ///
    /// # Errors
    /// When the entries cannot be written.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        for entry in &self.entries {
            serde_json::to_writer(&mut to, entry)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Both histories together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    /// The recorded entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The locks in the history.
    pub fn locks(&self) -> BTreeSet<&str> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.what {
                What::Call { lock, .. } => Some(lock.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The number of recorded grants of this lock.
    pub fn grants(&self, lock: &str) -> usize {
        let (mut asked, mut grants) = (HashSet::new(), 0);
        for entry in &self.entries {
            let operation = (&entry.process, entry.op);
            match &entry.what {
                What::Call { lock: called, .. } if called == lock => drop(asked.insert(operation)),
                What::Return(Outcome::Granted { .. }) if asked.contains(&operation) => grants += 1,
                _ => {}
            }
        }
        grants
    }

    /// Checks the history of one lock.
    ///
    /// # Errors
    /// The first operation that a lock with these `rules` cannot explain.
    pub fn check(&self, lock: &str, rules: &Rules) -> Result<Summary, Violation> {
        let operations = operations::of(&self.entries, lock)?;
        let uses = Uses::of(lock, &operations)?;
        let holds = holds::of(&operations, &uses, rules);
        let exclusion = exclusion::check(lock, &operations, &holds).err();
        let token = tokens::check(lock, &operations, &holds).err();
        if let Some(first) = exclusion.into_iter().chain(token).min_by_key(|violation| violation.at)
        {
            return Err(first);
        }
        let steps = steps::of(&operations, &holds, rules);
        linear::check(lock, &operations, &steps, rules)?;
        Ok(Summary {
            operations: operations.len(),
            grants: holds.len(),
            unknown: operations
                .iter()
                .filter(|op| matches!(op.outcome, None | Some(Outcome::Unknown)))
                .count(),
            lost: holds.iter().filter(|hold| !hold.released).count(),
            refusals: steps.iter().filter(|step| step.effect.is_refusal()).count(),
        })
    }
}
