//! The commands that the tasks run.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result};

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_own_variables(&mut cargo).current_dir(root);
    cargo
}

/// Removes the variables that cargo has set for xtask from a command. The build script of ring
/// reads some of them: cargo would build ring and its dependents again after each command that the
/// user gives to cargo directly.
pub(crate) fn without_own_variables(command: &mut Command) -> &mut Command {
    let is_own = |name: &str| {
        ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_own)) {
        command.env_remove(name);
    }
    command
}

/// Prints the command, and returns the line.
pub(crate) fn say(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    eprintln!("xtask: {line}");
    line
}

pub(crate) fn say_and_run(command: &mut Command) -> Result<ExitStatus> {
    let line = say(command);
    command.status().with_context(|| format!("cannot run {line}"))
}

/// The exit code of the command; 1 if a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_none_of_the_variables_that_cargo_has_set_for_us() {
        let cargo = cargo(Path::new("/"));
        for own in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(
                std::env::var_os(own).is_some(),
                "{own} is not set: was this program started without cargo?"
            );
            assert!(cargo.get_envs().any(|(name, value)| name == own && value.is_none()), "{own}");
        }
        assert!(!cargo.get_envs().any(|(name, _)| name == "PATH" || name == "CARGO_HOME"));
    }
}
