//! Runs every example of the workspace. Each shows something, asserts it, and ends by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::secrets;
use crate::test::{cargo, say};

/// Many times what any of them takes, for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// An example that was built.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    package: String,
    name: String,
    program: PathBuf,
}

impl Example {
    fn to_repeat(&self) -> String {
        format!("cargo run -p {} --all-features --example {}", self.package, self.name)
    }
}

/// Runs them one after the other, whatever becomes of one; returns how many lines showed a secret.
pub(crate) fn run(root: &Path) -> Result<usize> {
    let (mut failures, mut secrets) = (Vec::new(), 0);
    for example in build(root)? {
        println!("\n---- example {} ----", example.name);
        let mut command = Command::new(&example.program);
        let (status, shown) = secrets::watch(command.current_dir(root).stdin(Stdio::null()), Some(LIMIT))?;
        secrets += shown;
        failures.extend(complaint(&example, status));
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n       "));
    }
    Ok(secrets)
}

fn complaint(example: &Example, status: Option<ExitStatus>) -> Option<String> {
    let how = match status {
        Some(status) if status.success() => return None,
        Some(status) => format!("failed ({status})"),
        None => format!("did not end within {} s", LIMIT.as_secs()),
    };
    Some(format!("example {} {how}. To repeat it: {}", example.name, example.to_repeat()))
}

/// Which there are is what cargo says that it has built.
fn build(root: &Path) -> Result<Vec<Example>> {
    let mut build = cargo(root);
    build.args(["build", "--workspace", "--examples", "--all-features", "--locked"]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let line = say(&build);
    let output = build.output().with_context(|| format!("cannot run {line}"))?;
    if !output.status.success() {
        bail!("the examples do not build. To repeat it: {line}");
    }
    let mut examples: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(example).collect();
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    if examples.is_empty() {
        bail!("cargo has built no example. Try: {line}");
    }
    Ok(examples)
}

/// The example that a message of cargo speaks of, if it does.
fn example(message: &str) -> Option<Example> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let is_example = target["kind"].as_array()?.iter().any(|kind| kind == "example");
    if message["reason"] != "compiler-artifact" || !is_example {
        return None;
    }
    Some(Example {
        package: package(message["package_id"].as_str()?)?.to_owned(),
        name: target["name"].as_str()?.to_owned(),
        program: message["executable"].as_str()?.into(),
    })
}

/// Of `path+file:///…/crates/lockkeeper#0.1.0`, or `…#name@0.1.0` where the folder is called otherwise.
fn package(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => place.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, package: &str, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///x/{package}","target":{{"kind":["{kind}"],
            "name":"tickets"}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn an_example_is_found_in_what_cargo_says() {
        for package in ["crates/lockkeeper#0.1.0", "crates/other#lockkeeper@0.1.0"] {
            let found = example(&message("example", package, r#""/t/tickets""#)).unwrap();
            assert_eq!(found.program, Path::new("/t/tickets"));
            assert_eq!(found.to_repeat(), "cargo run -p lockkeeper --all-features --example tickets");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_an_example() {
        let others = [
            message("lib", "lockkeeper#0.1.0", "null"),
            message("bin", "lockkeeper#0.1.0", r#""/t/x""#),
            message("example", "lockkeeper#0.1.0", "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "hello".to_owned(),
        ];
        assert!(others.iter().all(|other| example(other).is_none()));
    }

    #[test]
    fn a_failure_names_the_example_and_how_to_repeat_it() {
        let failing = example(&message("example", "lockkeeper#0.1.0", r#""/t/tickets""#)).unwrap();
        let status = |code: &str| Some(Command::new("sh").args(["-c", code]).status().unwrap());
        assert_eq!(complaint(&failing, status("exit 0")), None);
        for (status, how) in [(status("exit 3"), "failed (exit status: 3)"), (None, "did not end within 120 s")] {
            let text = complaint(&failing, status).unwrap();
            assert!(
                text.starts_with(&format!("example tickets {how}. To repeat it: cargo run -p lockkeeper")),
                "{text}"
            );
        }
    }
}
