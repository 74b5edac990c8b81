//! `cargo xtask interop`: builds the foreign clients of `interop/`, and runs their tests beside
//! lockkeeper.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::commands::{cargo, say_and_run};
use crate::go;
use crate::packages::{Program, install_missing, is_installed};
use crate::test::{Total, run_tests};

/// What the tests start and build with, and Debian has in small packages. It has the second file of
/// protobuf in a package of its own.
const SMALL: &[Program] = &[
    Program { binary: "protoc", package: "protobuf-compiler", variable: None },
    Program {
        binary: "/usr/include/google/protobuf/any.proto",
        package: "libprotobuf-dev",
        variable: None,
    },
    Program {
        binary: "redis-server",
        package: "redis-server",
        variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER"),
    },
];

/// The languages whose tools are too large to be installed without a question: the programs, and
/// Debian's packages.
const LARGE: [(&[&str], &str); 3] = [
    (&["javac", "mvn"], "default-jdk-headless maven"),
    (&["node", "npm"], "nodejs npm"),
    (&["python3"], "python3-venv"),
];

/// The Rust clients, each a program.
const RUST: [&str; 2] = ["etcd-client-lock", "rslock-lock"];

/// The Java clients, each in a folder of its own.
const JAVA: [&str; 2] = ["jetcd", "redisson"];

/// The program of a Java client, in its folder.
const JAR: &str = "client.jar";

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    must_have(&missing(is_installed, has_venv()))?;
    install_missing(SMALL)?;
    let mut total = Total::default();
    total.time("foreign clients", || build_clients(root))?;
    // With the same options as `test`: for one package alone, cargo would build most of it again.
    run_tests(root, &["--workspace", "--test", "interop"], args, total)
}

/// The missing programs, each with Debian's packages of its language.
fn missing(is_there: impl Fn(&str) -> bool, has_venv: bool) -> Vec<(&'static str, &'static str)> {
    let mut missing = Vec::new();
    for (programs, packages) in LARGE {
        let absent = programs.iter().filter(|program| !is_there(program));
        missing.extend(absent.map(|program| (*program, packages)));
    }
    if !has_venv && is_there("python3") {
        missing.push(("python3 -m venv", "python3-venv"));
    }
    missing
}

fn must_have(missing: &[(&str, &str)]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, packages)| *packages).collect();
    packages.dedup();
    bail!("not installed: {}. Try: apt-get install {}", names.join(", "), packages.join(" "))
}

/// Debian's python3 alone has the module, and not what it installs.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    let ended = python.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}

fn build_clients(root: &Path) -> Result<()> {
    let (sources, target) = (root.join("interop"), go::target(root)?.join("interop"));
    go::build(root)?;
    build_rust(&sources.join("rust"), &target)?;
    build_java(&sources.join("java"), &target.join("java"))?;
    build_python(&sources.join("python"), &target.join("python"))?;
    build_node(&sources.join("node"), &target.join("node"))
}

fn build_rust(package: &Path, target: &Path) -> Result<()> {
    let mut build = cargo(package);
    build.args(["build", "--locked", "--target-dir"]).arg(target.join("rust"));
    must(&mut build)?;
    RUST.iter().try_for_each(|name| {
        fs::copy(target.join("rust/debug").join(name), target.join("bin").join(name))
            .map(|_| ())
            .context("cannot copy what cargo has built")
    })
}

fn build_java(project: &Path, target: &Path) -> Result<()> {
    let jars = JAVA.map(|name| target.join(name).join(JAR));
    if is_newest(&jars, project)? {
        return Ok(());
    }
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "package"])
        .arg(format!("-Dtarget={}", target.display()));
    must(maven.current_dir(project))?;
    // Maven does not write a program that is unchanged.
    jars.iter().try_for_each(|jar| go::touch(jar))
}

/// A virtual environment, and the client in it.
fn build_python(package: &Path, target: &Path) -> Result<()> {
    let client = target.join("client.py");
    if go::is_newer(&client, package)? {
        return Ok(());
    }
    must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(target))?;
    let mut pip = Command::new(target.join("bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"])
        .args(["--require-hashes", "--only-binary", ":all:", "--requirement"])
        .arg(package.join("requirements.txt"));
    must(&mut pip)?;
    copy(&package.join("client.py"), &client)
}

/// The modules of the lock file, and the client beside them.
fn build_node(package: &Path, target: &Path) -> Result<()> {
    let client = target.join("client.mjs");
    if go::is_newer(&client, package)? {
        return Ok(());
    }
    fs::create_dir_all(target).with_context(|| format!("cannot make {}", target.display()))?;
    for file in ["package.json", "package-lock.json"] {
        copy(&package.join(file), &target.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    must(npm.current_dir(target))?;
    copy(&package.join("client.mjs"), &client)
}

fn is_newest(programs: &[PathBuf], sources: &Path) -> Result<bool> {
    for program in programs {
        if !go::is_newer(program, sources)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(|_| ()).with_context(|| format!("cannot copy {}", from.display()))
}

pub(crate) fn must(command: &mut Command) -> Result<()> {
    let ended = say_and_run(command)?;
    if !ended.success() {
        bail!("see above: {command:?} has failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once_with_its_packages() {
        must_have(&missing(|_| true, true)).unwrap();
        let said = |absent: &[&str], has_venv| {
            let missing = missing(|program| !absent.contains(&program), has_venv);
            must_have(&missing).unwrap_err().to_string()
        };
        assert_eq!(
            said(&["javac", "mvn", "npm"], true),
            "not installed: javac, mvn, npm. Try: apt-get install default-jdk-headless maven nodejs npm"
        );
        assert_eq!(
            said(&[], false),
            "not installed: python3 -m venv. Try: apt-get install python3-venv"
        );
        assert_eq!(
            said(&["python3"], false),
            "not installed: python3. Try: apt-get install python3-venv"
        );
    }
}
