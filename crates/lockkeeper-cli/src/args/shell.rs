//! Commands whose output comes from the definition of the command line itself.

use clap::Args;
use clap_complete::Shell;

/// Prints the completions for a shell
///
/// For bash: lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
