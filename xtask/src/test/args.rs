//! The user's arguments of `cargo xtask test`, sorted by the program that reads them.

/// Options of cargo with a value.
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

/// Runs the tests that are left out by default. To cargo it would be an old name of `--workspace`.
pub(crate) const ALL: &str = "--all";

/// Arguments for cargo, and for the test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    /// Options that choose the packages and targets.
    pub(crate) cargo: Vec<String>,
    /// Names of tests, and options of a test program.
    pub(crate) program: Vec<String>,
    /// `--all`, an option of xtask: also run the programs that are left out by default.
    pub(crate) all: bool,
}

impl Args {
    /// Bare words before `--` are names of tests, as for `cargo test`; arguments after `--` are for
    /// the test programs.
    pub(crate) fn new(args: &[String]) -> Self {
        let mut sorted = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                sorted.program.extend(args.by_ref().cloned());
            } else if arg == ALL {
                sorted.all = true;
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

    /// Returns whether the options name test programs; cargo builds no others then.
    pub(crate) fn name_programs(&self) -> bool {
        self.cargo.iter().any(|arg| arg == "--test" || arg.starts_with("--test="))
    }

    /// Returns whether the program `matrix` runs, which needs further servers.
    pub(crate) fn runs_matrix(&self) -> bool {
        self.all || self.cargo.iter().any(|arg| arg == "matrix" || arg == "--test=matrix")
    }

    /// Returns whether the options choose nothing; `--all` chooses nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.cargo.is_empty() && self.program.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_is_an_option_of_ours_and_chooses_nothing() {
        let sorted = args("--all -p lockkeeper mutex");
        assert!(sorted.all && !sorted.is_empty());
        assert_eq!(
            (sorted.cargo, sorted.program),
            (args("-p lockkeeper").cargo, args("mutex").program)
        );
        assert!(args("--all").is_empty() && args("--all").all && !args("").all);
        // After the dashes `--all` belongs to the test programs, and the value of another option is
        // never ours.
        assert!(!args("-- --all").all && !args("--test --all").all);
    }

    #[test]
    fn a_program_is_named_by_its_option_alone() {
        for named in ["--test matrix", "--test=matrix", "-p lockkeeper-live --test it"] {
            assert!(args(named).name_programs(), "{named}");
        }
        for other in ["", "matrix", "--tests", "-p lockkeeper-live", "-- --test", "--all"] {
            assert!(!args(other).name_programs(), "{other}");
        }
    }

    #[test]
    fn options_go_to_cargo_and_names_of_tests_to_the_programs() {
        let sorted = args("-p lockkeeper --lib mutex -- --exact --nocapture");
        assert_eq!(sorted.cargo, ["-p", "lockkeeper", "--lib"]);
        assert_eq!(sorted.program, ["mutex", "--exact", "--nocapture"]);
        assert!(sorted.name_packages() && !args("--lib mutex").name_packages());
        assert!(args("").is_empty() && !args("mutex").is_empty());
    }
}
