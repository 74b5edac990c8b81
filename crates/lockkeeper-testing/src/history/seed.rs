//! Seeds of runs. A run draws and prints its seed, and the seed repeats the run.

use std::fmt;

use lockkeeper_core::kit::random;

/// The environment variable with the seed of a run.
pub const SEED: &str = "LOCKKEEPER_SEED";

/// The seed of everything random in a run on virtual time. `Display` shows the variable that
/// repeats the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// This seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns this number of new seeds, or only the seed in [`SEED`] if the variable is set. Each
    /// seed is printed when its run begins.
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

    /// Makes this thread draw its random numbers from this seed until the result is dropped. Ids
    /// and pauses are then the same in each run.
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
