//! What the user says after `cargo xtask test`, sorted by its reader.

/// Options of cargo that are followed by a value of their own.
const WITH_VALUE: [&str; 14] = [
    "-p",
    "--package",
    "--exclude",
    "--test",
    "--bin",
    "--example",
    "--bench",
    "-F",
    "--features",
    "-j",
    "--jobs",
    "--profile",
    "--target",
    "--config",
];

/// Arguments for cargo, and for the test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    /// Options that choose what is built.
    pub(crate) cargo: Vec<String>,
    /// Names of tests, and options of a test program.
    pub(crate) program: Vec<String>,
}

impl Args {
    /// Bare words before `--` are names of tests, as for `cargo test`; what follows `--` is for the
    /// test programs.
    pub(crate) fn new(args: &[String]) -> Self {
        let mut sorted = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                sorted.program.extend(args.by_ref().cloned());
            } else if arg.starts_with('-') {
                sorted.cargo.push(arg.clone());
                if WITH_VALUE.contains(&arg.as_str()) {
                    sorted.cargo.extend(args.next().cloned());
                }
            } else {
                sorted.program.push(arg.clone());
            }
        }
        sorted
    }

    /// Whether only some packages are meant.
    pub(crate) fn name_packages(&self) -> bool {
        self.cargo.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_to_cargo_and_names_of_tests_to_the_programs() {
        let args = |line: &str| Args::new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let sorted = args("-p lockkeeper --lib mutex -- --exact --nocapture");
        assert_eq!(sorted.cargo, ["-p", "lockkeeper", "--lib"]);
        assert_eq!(sorted.program, ["mutex", "--exact", "--nocapture"]);
        assert!(sorted.name_packages() && !args("--lib mutex").name_packages());
        assert!(args("").is_empty() && !args("mutex").is_empty());
    }
}
