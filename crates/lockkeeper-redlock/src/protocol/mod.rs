//! The decisions of a client of a Fenced Redlock, without I/O: what the answers of the nodes mean.
//!
//! A node assigns each number once, and in rising order. A claim has the token T only if a majority
//! of the nodes answered that they hold the claim with exactly the number T. Two majorities share a
//! node, so no two claims have one token (`tests::mutants`, `tests::model`).

mod acquire;
mod release;
mod renewal;
#[cfg(test)]
mod tests;

pub(crate) use self::acquire::{Acquire, Step};
pub(crate) use self::release::{Release, Released};
pub(crate) use self::renewal::{RenewStep, Renewing};

/// How many of `nodes` are a majority.
pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The number that at least `quorum` of these are equal to.
pub(crate) fn agreed(numbers: impl Iterator<Item = u64> + Clone, quorum: usize) -> Option<u64> {
    let count = |number: u64| numbers.clone().filter(|other| *other == number).count();
    numbers.clone().find(|number| count(*number) >= quorum)
}
