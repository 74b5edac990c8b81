//! `bench` as it was typed.

use std::time::Duration;

use clap::Args;

use super::number;
use crate::duration;

/// Measures how fast the store gives locks to the tasks of this process
///
/// The names of the locks begin with the --prefix, and no other client uses them. `bench` releases
/// all its locks at the end. INT ends the measurement early; `bench` then prints the figures so
/// far.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// How long to measure; a duration
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = duration::parse)]
    pub(crate) seconds: Duration,

    /// How many tasks take a lock and release it, again and again
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number::up_to_100_000)]
    pub(crate) tasks: u32,

    /// How many locks the tasks share; each task uses one of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::up_to_100_000)]
    pub(crate) names: u32,

    /// How long a task holds a lock
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::parse)]
    pub(crate) hold: Duration,
}
