//! The commands that only look, as they were typed.

use clap::Args;

/// Shows who holds a lock and who waits for it; exit code 1 when it is free
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Lists the locks that are held or waited for
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only names that begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) starting_with: String,

    /// List at most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}
