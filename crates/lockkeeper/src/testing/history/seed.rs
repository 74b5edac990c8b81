//! Seeds of runs: drawn, said, and given back to repeat a run.

use std::fmt;

use crate::random;

/// The variable that gives a run its seed.
pub const SEED: &str = "LOCKKEEPER_SEED";

/// What decides everything that is left to chance in a run on virtual time. Displayed as what repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// This one.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// So many new seeds, or only the one of [`SEED`] if that is set. Each is printed when its run begins.
    ///
    /// # Panics
    /// When [`SEED`] is not a number.
    pub fn several(runs: usize) -> impl Iterator<Item = Self> {
        let given = std::env::var(SEED).ok().map(|text| match text.parse() {
            Ok(seed) => Self(seed),
            Err(_) => panic!("{SEED} is {text:?}, which is not a number"),
        });
        let runs = if given.is_some() { 1 } else { runs };
        (0..runs)
            .map(move |_| given.unwrap_or_else(|| Self(random::below(u64::MAX))))
            .inspect(|seed| eprintln!("{seed}"))
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Until the result is dropped, this thread draws its random numbers from this seed: ids and pauses come out the
    /// same each time.
    #[must_use]
    pub fn sow(self) -> impl Drop {
        random::sow(self.0)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SEED}={}", self.0)
    }
}
