//! The paths of the programs that the tests start.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

/// The folders of Debian's servers, which are not on the `PATH` of a user.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A program of Debian's packages.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of the program.
    pub binary: &'static str,
    /// The packages with the program, and with its companions.
    pub packages: &'static str,
    /// The variable that names another program:
    /// `LOCKKEEPER_LIVE_REDIS_SERVER=/opt/valkey/bin/valkey-server`.
    pub variable: Option<&'static str>,
}

impl Program {
    /// The path of the program.
    ///
    /// # Errors
    /// If the program is missing, with the command that installs it, or with the variable that
    /// names a missing program.
    pub fn find(self) -> Result<PathBuf> {
        if let Some(named) = self.variable.and_then(named) {
            return named;
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let mut addresses = env::split_paths(&path)
            .chain(SBIN.map(Into::into))
            .map(|position| position.join(self.binary));
        addresses.find(|program| program.is_file()).ok_or_else(|| {
            anyhow!(
                "{} is not installed. Try: cargo xtask test, or apt-get install {}",
                self.binary,
                self.packages
            )
        })
    }
}

/// The etcd that `cargo xtask test` builds, or the etcd that `LOCKKEEPER_LIVE_ETCD` names.
pub(crate) fn etcd_binary() -> Result<PathBuf> {
    named("LOCKKEEPER_LIVE_ETCD").unwrap_or_else(|| interop_binary("bin/etcd"))
}

/// The Valkey that `cargo xtask test --all` installs, or the Valkey that `LOCKKEEPER_LIVE_VALKEY`
/// names.
pub(crate) fn valkey_binary() -> Result<PathBuf> {
    let installed = || {
        interop_binary("bin/valkey-server").map_err(|_| {
            anyhow!("valkey-server is not installed. Try: cargo xtask test --test matrix")
        })
    };
    named("LOCKKEEPER_LIVE_VALKEY").unwrap_or_else(installed)
}

/// A program that is built from `interop/`, by its path: `bin/etcdctl`. `cargo xtask test` builds
/// the servers of etcd and `etcdctl`, and `cargo xtask interop` builds the rest.
///
/// # Errors
/// If the program is missing, with the command that builds it.
pub fn interop_binary(path: &str) -> Result<PathBuf> {
    let test = env::current_exe().context("where is this test?")?;
    // target/debug/deps/it-0123456789abcdef, or one folder deeper if cargo builds for another kind
    // of machine.
    let mut addresses = test.ancestors().map(|folder| folder.join("interop").join(path));
    addresses
        .find(|program| program.is_file())
        .ok_or_else(|| anyhow!("{path} is not built. Try: cargo xtask interop"))
}

/// The path in a variable, if the variable is set.
fn named(variable: &str) -> Option<Result<PathBuf>> {
    let named = PathBuf::from(env::var_os(variable)?);
    let problem =
        || anyhow!("{variable} names {}, which is no file. Try: its whole path", named.display());
    Some(named.is_file().then(|| named.clone()).ok_or_else(problem))
}

/// The command line program that was built with these tests.
///
/// # Errors
/// If the program is missing, with the command that builds it.
pub fn lockkeeper_binary() -> Result<PathBuf> {
    let test = env::current_exe().context("where is this test?")?;
    // target/debug/deps/it-0123456789abcdef
    let folder = test.ancestors().nth(2).context("a test is in a folder of a folder")?;
    let program = folder.join("lockkeeper");
    if program.is_file() {
        return Ok(program);
    }
    Err(anyhow!(
        "{} is missing. Try: cargo test --workspace, or cargo build -p lockkeeper-cli",
        program.display()
    ))
}
