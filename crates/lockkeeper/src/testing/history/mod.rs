//! Histories of what clients did, and whether locks that keep their promises can have brought them about.
//!
//! A [`Recorder`] writes down when each operation began and ended, what came of it, and whenever a holder looked at its
//! lock. [`History::check`] then decides three things for each lock:
//!
//! - **Exclusion** by what holders *believed*: no moment at which believers together had more than there is.
//! - **Tokens**: none was given twice, and an operation that began after another had ended got a higher one.
//! - **Linearizability**: the operations can be put into one order, each at some moment between its beginning and its
//!   end, in which a lock of the simplest kind would have answered as this one did. See [`Effect`] for that lock.
//!
//! What is not known to have happened, or when, is given every chance: an operation without an answer may have taken
//! effect at any time after its beginning, or never; a lock that was lost, or whose holder was killed, may have been
//! free at any time after its holder's last proof of belief.
//!
//! A [`Plan`] lets several clients do random things with one lock, by a [`Seed`] that is printed and repeats the run.
//!
//! What is found wrong is a [`Violation`], which names the first operation that cannot be explained.

mod contestant;
mod entry;
mod exclusion;
mod holds;
mod linear;
pub mod lives;
mod operations;
mod recorder;
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

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::time::Duration;

pub use self::contestant::{Ask, Contestant, Held, Kind, LibraryClient};
pub use self::entry::{Call, Entry, Outcome, What};
pub use self::recorder::Recorder;
pub use self::search::{Answer, linearize};
pub use self::seed::{SEED, Seed};
pub use self::steps::{Effect, HoldId, Lock, Step};
use self::uses::Uses;
pub use self::violation::{Broken, Violation};
pub use self::walk::Plan;
pub use self::walker::{Habits, Walker};
use crate::store::MAX;

/// What was recorded, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    entries: Vec<Entry>,
}

/// What a lock is to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What there is of it, where the claims do not say what each of them knows; then it is at least that.
    pub capacity: u32,
    /// How much longer than its holder believed a lock is kept that was not released.
    pub lock_delay: Duration,
    /// How long a claim may stand after nobody wants it any more, for whatever reason; `None` for ever.
    pub lingers: Option<Duration>,
}

/// What a history that was found good consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations, ended or not.
    pub operations: usize,
    /// Times that somebody got the lock.
    pub grants: usize,
    /// Operations whose outcome nobody knows.
    pub unknown: usize,
    /// Times that it was not given back in so many words: lost, dropped, or with a holder who is not heard of any more.
    pub lost: usize,
    /// Refusals that had to have a reason, and had one.
    pub refusals: usize,
}

impl Rules {
    /// Of a mutex, or of a read-write lock: writers have it alone.
    pub fn exclusive() -> Self {
        Self::permits(MAX)
    }

    /// Of a semaphore.
    pub fn permits(capacity: u32) -> Self {
        Self { capacity, lock_delay: Duration::ZERO, lingers: None }
    }

    /// With this lock-delay.
    #[must_use]
    pub fn delayed(self, lock_delay: Duration) -> Self {
        Self { lock_delay, ..self }
    }

    /// Nothing stands longer than this after its end.
    #[must_use]
    pub fn lingering(self, lingers: Duration) -> Self {
        Self { lingers: Some(lingers), ..self }
    }
}

impl History {
    /// Of these entries.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Reads JSON Lines. A last line that was cut off, as a killed process leaves it, counts as not written.
    ///
    /// # Errors
    /// `InvalidData` for a line that is no entry, naming its number.
    pub fn read(mut from: impl BufRead) -> io::Result<Self> {
        let (mut entries, mut line, mut number) = (Vec::new(), String::new(), 0_usize);
        while from.read_line(&mut line)? > 0 && line.ends_with('\n') {
            number += 1;
            let wrong = |e| io::Error::new(io::ErrorKind::InvalidData, format!("line {number} is no entry: {e}"));
            entries.push(serde_json::from_str(&line).map_err(wrong)?);
            line.clear();
        }
        Ok(Self { entries })
    }

    /// Writes JSON Lines.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        for entry in &self.entries {
            serde_json::to_writer(&mut to, entry)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// The two together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    /// What was recorded.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The locks that it is about.
    pub fn locks(&self) -> BTreeSet<&str> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.what {
                What::Call { lock, .. } => Some(lock.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Checks what happened on one lock.
    ///
    /// # Errors
    /// The first operation that a lock which keeps to `rules` cannot explain.
    pub fn check(&self, lock: &str, rules: &Rules) -> Result<Summary, Violation> {
        let operations = operations::of(&self.entries, lock)?;
        let uses = Uses::of(lock, &operations)?;
        let holds = holds::of(&operations, &uses, rules);
        let exclusion = exclusion::check(lock, &operations, &holds).err();
        let token = tokens::check(lock, &operations, &holds).err();
        if let Some(first) = exclusion.into_iter().chain(token).min_by_key(|violation| violation.at) {
            return Err(first);
        }
        let steps = steps::of(&operations, &holds, rules);
        linear::check(lock, &operations, &steps, rules)?;
        Ok(Summary {
            operations: operations.len(),
            grants: holds.len(),
            unknown: operations.iter().filter(|op| matches!(op.outcome, None | Some(Outcome::Unknown))).count(),
            lost: holds.iter().filter(|hold| !hold.given_back).count(),
            refusals: steps.iter().filter(|step| step.effect.is_refusal()).count(),
        })
    }
}
