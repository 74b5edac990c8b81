//! Installs Debian's packages.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::commands::say_and_run;

/// A program that has to be there.
pub(crate) struct Program {
    /// The name of a program, or the whole path of a file that is no program.
    pub(crate) binary: &'static str,
    /// Debian's package with this file.
    pub(crate) package: &'static str,
    /// The variable that names another program for the tests.
    pub(crate) variable: Option<&'static str>,
}

/// Where Debian puts servers that are not on the `PATH` of a user.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Installs the missing packages.
pub(crate) fn install_missing(programs: &[Program]) -> Result<()> {
    let packages = missing(programs, |program| {
        program.variable.is_some_and(|variable| std::env::var_os(variable).is_some())
            || is_installed(program.binary)
    });
    if packages.is_empty() {
        eprintln!("xtask: nothing to install");
        return Ok(());
    }
    install(&packages)
}

/// The packages of the programs that are not there, each once.
fn missing(programs: &[Program], is_there: impl Fn(&Program) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> = programs
        .iter()
        .filter(|program| !is_there(program))
        .map(|program| program.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

pub(crate) fn is_installed(binary: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(SBIN.map(Into::into));
    places.any(|place| place.join(binary).is_file())
}

fn install(packages: &[&str]) -> Result<()> {
    let remedy = || format!("install them yourself: {}", packages.join(" "));
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends"]] {
        let mut apt = apt_get(is_root()?);
        apt.args(arguments);
        if arguments[0] == "install" {
            apt.args(packages);
        }
        if !say_and_run(&mut apt).with_context(remedy)?.success() {
            bail!("apt-get failed; {}", remedy());
        }
    }
    // The tests start servers of their own, on other ports. The other servers of this machine are
    // its owner's concern.
    let packages = packages.join(" ");
    eprintln!(
        "xtask: the tests need no service. To stop what Debian may have started: systemctl disable --now {packages}"
    );
    Ok(())
}

/// Never asks: neither sudo for a password nor apt for a decision.
fn apt_get(is_root: bool) -> Command {
    if is_root {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        return apt;
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["--non-interactive", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    sudo
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn each_missing_package_is_installed_once() {
        let programs = [("a-server", "b"), ("a-cli", "b"), ("here", "c"), ("d-server", "a")]
            .map(|(binary, package)| Program { binary, package, variable: None });
        assert_eq!(missing(&programs, |program| program.binary == "here"), ["a", "b"]);
        assert!(missing(&programs, |_| true).is_empty());
    }

    #[test]
    fn sudo_is_used_only_when_not_root_and_never_asks() {
        assert_eq!(words(&apt_get(true)), ["apt-get"]);
        assert_eq!(words(&apt_get(false))[..2], ["sudo", "--non-interactive"]);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program-anywhere"));
    }
}
