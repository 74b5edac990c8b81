//! `cargo xtask interop`: builds the foreign clients of `interop/`, and runs their tests beside
//! lockkeeper.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::commands::{cargo, say_and_run};
use crate::go;
use crate::packages::{Program, install_missing, is_installed};
use crate::test::{Total, run_tests};

/// The tools that build the Rust etcd-client. Debian has the second one in a package of its own.
const PROTOBUF: &[Program] = &[
    Program { binary: "protoc", package: "protobuf-compiler", variable: None },
    Program {
        binary: "/usr/include/google/protobuf/any.proto",
        package: "libprotobuf-dev",
        variable: None,
    },
];

/// Java is too large to be installed without a question.
const JAVA: [&str; 2] = ["javac", "mvn"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    if let Some(missing) = JAVA.iter().find(|program| !is_installed(program)) {
        bail!("{missing} is not installed. Try: apt-get install default-jdk-headless maven");
    }
    install_missing(PROTOBUF)?;
    let mut total = Total::default();
    total.time("foreign clients", || build_clients(root))?;
    // With the same options as `test`: for one package alone, cargo would build most of it again.
    run_tests(root, &["--workspace", "--test", "interop"], args, total)
}

fn build_clients(root: &Path) -> Result<()> {
    let target = go::target(root)?.join("interop");
    go::build(root)?;
    build_rust(&root.join("interop/rust"), &target)?;
    build_java(&root.join("interop/java"), &target.join("java"))
}

fn build_rust(package: &Path, target: &Path) -> Result<()> {
    let mut build = cargo(package);
    build.args(["build", "--locked", "--target-dir"]).arg(target.join("rust"));
    must(&mut build)?;
    let (name, bin) = ("etcd-client-lock", target.join("bin"));
    fs::copy(target.join("rust/debug").join(name), bin.join(name))
        .map(|_| ())
        .context("cannot copy what cargo has built")
}

fn build_java(project: &Path, target: &Path) -> Result<()> {
    if go::is_newer(&target.join("jetcd.jar"), project)? {
        return Ok(());
    }
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "package"])
        .arg(format!("-Dtarget={}", target.display()));
    must(maven.current_dir(project))
}

fn must(command: &mut Command) -> Result<()> {
    let ended = say_and_run(command)?;
    if !ended.success() {
        bail!("a foreign client does not build: see above");
    }
    Ok(())
}
