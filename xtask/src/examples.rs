//! Runs every example of the workspace. Each example asserts its result, and ends by itself.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::secrets;
use crate::test::Outcome;

/// Many times the duration of any example, for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// An example that was built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) program: PathBuf,
}

impl Example {
    fn to_repeat(&self) -> String {
        format!("cargo run -p {} --all-features --example {}", self.package, self.name)
    }
}

/// Runs the examples one after the other, even after a failure.
pub(crate) fn run(root: &Path, examples: &[Example]) -> Result<Outcome> {
    if examples.is_empty() {
        bail!("cargo has built no example. Try: cargo build --workspace --examples --all-features");
    }
    let (mut failures, mut outcome) = (Vec::new(), Outcome::default());
    for example in examples {
        let start = Instant::now();
        println!("\n---- example {} ----", example.name);
        let mut command = Command::new(&example.program);
        let command = command.current_dir(root).stdin(Stdio::null());
        let (status, secrets) = secrets::watch(command, Some(LIMIT), &secrets::show, &|_| ())?;
        outcome.secrets += secrets;
        outcome.times.push((example.name.clone(), start.elapsed()));
        outcome.took += start.elapsed();
        match complaint(example, status) {
            None => outcome.passed += 1,
            Some(complaint) => failures.push(complaint),
        }
    }
    outcome.failed = failures.len();
    outcome.complaint = (!failures.is_empty()).then(|| failures.join("\n       "));
    Ok(outcome)
}

fn complaint(example: &Example, status: Option<ExitStatus>) -> Option<String> {
    let how = match status {
        Some(status) if status.success() => return None,
        Some(status) => format!("failed ({status})"),
        None => format!("did not end within {} s", LIMIT.as_secs()),
    };
    Some(format!("example {} {how}. To repeat it: {}", example.name, example.to_repeat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_example_and_how_to_repeat_it() {
        let failing = Example {
            package: "lockkeeper".to_owned(),
            name: "tickets".to_owned(),
            program: "/t/tickets".into(),
        };
        let status = |code: &str| Some(Command::new("sh").args(["-c", code]).status().unwrap());
        assert_eq!(complaint(&failing, status("exit 0")), None);
        for (status, how) in
            [(status("exit 3"), "failed (exit status: 3)"), (None, "did not end within 120 s")]
        {
            let text = complaint(&failing, status).unwrap();
            assert!(
                text.starts_with(&format!(
                    "example tickets {how}. To repeat it: cargo run -p lockkeeper"
                )),
                "{text}"
            );
        }
    }
}
