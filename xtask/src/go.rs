//! Builds the Go programs of `interop/go`, the etcd of the tests and foreign clients, and of
//! `interop/oldest`, the oldest etcd that lockkeeper takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::commands::{cargo, say_and_run};
use crate::packages::{Program, install_missing, is_installed};

const MODULES: [&str; 2] = ["interop/go", "interop/oldest"];

const GO: Program = Program { binary: "go", package: "golang-go", variable: None };

/// Where Go's own archive is unpacked to.
const ITS_PLACE: &str = "/usr/local/go/bin/go";

/// From this version on, Go fetches the version that a module asks for.
const GETS_OTHERS: (u32, u32) = (1, 21);

/// Go takes its own version from this variable; a user who sets the variable keeps the choice.
const TOOLCHAIN: &str = "GOTOOLCHAIN";

/// Builds the programs that are missing or older than their sources, into `interop/bin` of cargo's
/// target folder.
pub(crate) fn build(root: &Path) -> Result<()> {
    let bin = target(root)?.join("interop/bin");
    MODULES.iter().try_for_each(|module| build_one(&root.join(module), &bin))
}

fn build_one(module: &Path, bin: &Path) -> Result<()> {
    if is_built(module, bin)? {
        return Ok(());
    }
    let go = find()?;
    let (has, needs) = (version(&go)?, needed(module)?);
    let mut build = Command::new(&go);
    build
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(bin)
        .arg("./cmd/...")
        .current_dir(module);
    if must_get_another(has, needs)? && std::env::var_os(TOOLCHAIN).is_none() {
        build.env(TOOLCHAIN, "auto");
    }
    fs::create_dir_all(bin).with_context(|| format!("cannot make {}", bin.display()))?;
    if !say_and_run(&mut build)?.success() {
        let at = module.display();
        bail!("the programs of {at} do not build. To repeat it: cd {at} && go build ./cmd/...");
    }
    // Go does not write a program that is unchanged.
    programs(module)?.iter().try_for_each(|name| touch(&bin.join(name)))
}

fn is_built(module: &Path, bin: &Path) -> Result<bool> {
    for name in programs(module)? {
        if !is_newer(&bin.join(name), module)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file is there, and newer than all that is in a folder.
pub(crate) fn is_newer(made: &Path, sources: &Path) -> Result<bool> {
    let made = made.metadata().and_then(|file| file.modified()).ok();
    Ok(made > newest(sources)?)
}

/// One for each folder of `cmd`.
fn programs(module: &Path) -> Result<Vec<String>> {
    let folders = fs::read_dir(module.join("cmd"))
        .with_context(|| format!("cannot list {}/cmd", module.display()))?;
    folders.map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned())).collect()
}

/// When the last of the files in there was changed.
fn newest(folder: &Path) -> Result<Option<SystemTime>> {
    let mut newest = None;
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        let changed = if is_folder {
            self::newest(&entry.path())?
        } else {
            Some(entry.metadata()?.modified()?)
        };
        newest = newest.max(changed);
    }
    Ok(newest)
}

pub(crate) fn touch(program: &Path) -> Result<()> {
    let file = fs::File::options()
        .append(true)
        .open(program)
        .with_context(|| program.display().to_string())?;
    file.set_modified(SystemTime::now()).with_context(|| program.display().to_string())
}

/// Returns whether Go has to fetch another version; an error if Go cannot.
fn must_get_another(has: (u32, u32), needs: (u32, u32)) -> Result<bool> {
    if has < needs && has < GETS_OTHERS {
        bail!(
            "Go {}.{} cannot build etcd, which needs {}.{}. Try: unpack the archive of https://go.dev/dl to /usr/local, \
             or for `cargo xtask test` let LOCKKEEPER_LIVE_ETCD name an etcd 3.6",
            has.0,
            has.1,
            needs.0,
            needs.1
        );
    }
    Ok(has < needs)
}

/// Go's own archive comes first: a user who has unpacked it wanted it.
fn find() -> Result<PathBuf> {
    if Path::new(ITS_PLACE).is_file() {
        return Ok(ITS_PLACE.into());
    }
    if !is_installed(GO.binary) {
        install_missing(&[GO])?;
    }
    Ok(GO.binary.into())
}

fn version(go: &Path) -> Result<(u32, u32)> {
    // In a module that names a newer Go, `go env GOVERSION` would ask that version.
    let output = Command::new(go)
        .args(["env", "GOVERSION"])
        .env(TOOLCHAIN, "local")
        .current_dir("/")
        .output();
    let output = output.with_context(|| format!("cannot run {}", go.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    numbers(text.trim().trim_start_matches("go")).with_context(|| format!("which Go is {text:?}?"))
}

/// The one that the module asks for.
fn needed(module: &Path) -> Result<(u32, u32)> {
    let text = fs::read_to_string(module.join("go.mod")).context("go.mod")?;
    let line = text.lines().find_map(|line| line.strip_prefix("go "));
    line.and_then(numbers).context("go.mod names no version of Go")
}

/// `1.26.8` → (1, 26)
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|number| {
        let end = number.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse().ok()
    });
    Some((numbers.next()??, numbers.next()??))
}

/// The folder in which cargo puts its builds.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let output =
        cargo(root).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).output();
    let metadata: Value = serde_json::from_slice(&output.context("cannot run cargo")?.stdout)
        .context("cargo metadata")?;
    Ok(metadata["target_directory"].as_str().context("cargo has no target folder")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("1.26.8"), Some((1, 26)));
        assert_eq!(numbers("1.9"), Some((1, 9)));
        assert_eq!(numbers("1.27rc1"), Some((1, 27)));
        assert!(numbers("1.9") < numbers("1.21"));
        assert!(["", "devel +0123", "1"].iter().all(|text| numbers(text).is_none()));
    }

    #[test]
    fn a_go_that_is_too_old_fetches_another_or_names_a_remedy() {
        assert!(
            !must_get_another((1, 26), (1, 26)).unwrap()
                && !must_get_another((1, 27), (1, 26)).unwrap()
        );
        assert!(must_get_another((1, 21), (1, 26)).unwrap());
        let error = must_get_another((1, 19), (1, 26)).unwrap_err().to_string();
        assert!(
            error.starts_with("Go 1.19 cannot build etcd, which needs 1.26. Try: unpack"),
            "{error}"
        );
    }

    #[test]
    fn the_programs_are_built_again_when_a_source_is_newer() {
        let root = crate::root().unwrap();
        let module = root.join(MODULES[0]);
        let bin = std::env::temp_dir().join(format!("lockkeeper-go-{}", std::process::id()));
        fs::create_dir_all(&bin).unwrap();
        assert!(!is_built(&module, &bin).unwrap());
        let programs = programs(&module).unwrap();
        for name in &programs {
            fs::write(bin.join(name), "").unwrap();
            touch(&bin.join(name)).unwrap();
        }
        assert!(is_built(&module, &bin).unwrap());
        let old = fs::File::options().append(true).open(bin.join(&programs[0])).unwrap();
        old.set_modified(newest(&module).unwrap().unwrap()).unwrap();
        assert!(!is_built(&module, &bin).unwrap());
        fs::remove_dir_all(&bin).unwrap();
    }

    #[test]
    fn each_module_names_a_version_and_its_programs() {
        for (module, program) in MODULES.into_iter().zip(["etcd", "etcd-oldest"]) {
            let module = crate::root().unwrap().join(module);
            assert!(needed(&module).unwrap() > GETS_OTHERS);
            assert!(programs(&module).unwrap().contains(&program.to_owned()));
        }
    }
}
