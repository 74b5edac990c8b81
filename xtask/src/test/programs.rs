//! The test programs that cargo builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::args::{ALL, Args};
use crate::commands::{cargo, say};
use crate::examples::Example;

/// How the tests of a program spend most of their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The tests wait for a server in real time.
    Sleep,
    /// The tests start processes.
    Spawn,
    /// The tests compute.
    Compute,
    /// Each is several processes that keep about half a processor at work.
    Storm,
}

impl Kind {
    /// How many tests of such a program run at a time. With so many a program keeps the processors
    /// at work: the last lines of a run show the time that each program took, and the time that it
    /// computed.
    pub(crate) fn threads(self) -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        match self {
            Self::Sleep => 16 * processors,
            Self::Spawn => 6 * processors,
            Self::Storm => processors,
            Self::Compute => 2 * processors,
        }
    }
}

/// A program that is known by its name, and its package where one is given.
type Known = (Option<&'static str>, &'static str, Kind);

/// All other programs compute. Each crate of a store has the two programs without a package.
const KINDS: [Known; 6] = [
    (None, "contract", Kind::Sleep),
    (None, "faults", Kind::Spawn),
    (Some("lockkeeper-live"), "it", Kind::Spawn),
    (Some("lockkeeper-cli"), "it", Kind::Spawn),
    (Some("lockkeeper"), "it", Kind::Sleep),
    (Some("lockkeeper-live"), "storms", Kind::Storm),
];

/// Makes a test program report how long each test took. The option is not stable, so the program
/// accepts it only with this variable in its environment, whatever the value. To a compiler that a
/// test might start, the value is the name of the crate that may use unstable features, so this
/// value changes nothing there.
const TIMES: [&str; 2] = ["--report-time", "-Zunstable-options"];
const UNSTABLE: (&str, &str) = ("RUSTC_BOOTSTRAP", "libtest");

/// The programs that run only with `--all` or by their name: other ways to the same stores, other
/// versions of the servers, long histories.
const ONLY_WITH_ALL: [Known; 1] = [(Some("lockkeeper-live"), "matrix", Kind::Sleep)];

/// All that is known of programs, the longest first.
fn known() -> impl Iterator<Item = Known> {
    KINDS.into_iter().chain(ONLY_WITH_ALL)
}

/// Whether this is the program of that name.
fn is_known(package: &str, program: &str, (of, name, _): Known) -> bool {
    program == name && of.is_none_or(|of| of == package)
}

/// A program with tests.
#[derive(Debug)]
pub(crate) struct TestProgram {
    /// `lockkeeper-redis contract`
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The options that make cargo run it.
    choice: Vec<String>,
    command: Command,
    /// Whether the program can report how long each test took.
    reports_times: bool,
}

impl TestProgram {
    /// The place among the known programs, or after them.
    pub(crate) fn rank(&self) -> usize {
        known().position(|known| self.is(known)).unwrap_or(usize::MAX)
    }

    /// Whether the tests only compute, and wait for no server, disk or process.
    pub(crate) fn computes(&self) -> bool {
        self.kind == Kind::Compute
    }

    /// Returns whether the program needs `--all` or its name, and neither is given.
    pub(crate) fn is_left_out(&self, args: &Args) -> bool {
        !args.all && !args.name_programs() && ONLY_WITH_ALL.into_iter().any(|known| self.is(known))
    }

    fn is(&self, known: Known) -> bool {
        self.name
            .split_once(' ')
            .is_some_and(|(package, program)| is_known(package, program, known))
    }

    /// The command with the user's options and xtask's own.
    pub(crate) fn command(&mut self, given: &[String]) -> &mut Command {
        let ours =
            ["--show-output"].into_iter().chain(TIMES.into_iter().filter(|_| self.reports_times));
        // A program refuses an option that is given twice.
        let ours: Vec<_> =
            ours.filter(|option| !given.iter().any(|given| is_same(given, option))).collect();
        if self.reports_times {
            self.command.env(UNSTABLE.0, UNSTABLE.1);
        }
        self.command.args(given).args(ours)
    }

    /// The line with the command that runs the left out program.
    pub(crate) fn note(&self) -> String {
        format!(
            "{}. To run it: cargo xtask test {}; with all others: cargo xtask test {ALL}",
            self.name,
            self.choice.join(" ")
        )
    }

    /// The line with the command that runs these tests again.
    pub(crate) fn to_repeat(&self, tests: &[String]) -> String {
        let mut line = format!("cargo test --all-features --locked {}", self.choice.join(" "));
        if !tests.is_empty() {
            line += " -- --exact";
            // The name of a test in the documentation has spaces.
            tests.iter().for_each(|test| line += &format!(" '{test}'"));
        }
        line
    }
}

/// `-Z` is one option, whatever its value.
fn is_same(given: &str, option: &str) -> bool {
    given == option || given.starts_with("-Z") && option.starts_with("-Z")
}

/// The built programs.
pub(crate) struct Built {
    pub(crate) programs: Vec<TestProgram>,
    pub(crate) examples: Vec<Example>,
}

/// Builds all at once, and takes the programs from cargo's messages.
pub(crate) fn build(root: &Path, which: &[&str], args: &Args) -> Result<Built> {
    let mut build = cargo(root);
    build
        .arg("test")
        .args(which)
        .args(["--all-features", "--locked", "--no-run"])
        .args(&args.cargo);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let line = say(&build);
    let output = build.output().with_context(|| format!("cannot run {line}"))?;
    if !output.status.success() {
        bail!("the tests do not build. To repeat it: {line}");
    }
    let (mut programs, mut examples) = (Vec::new(), Vec::new());
    for message in String::from_utf8_lossy(&output.stdout).lines() {
        let Some(artifact) = Artifact::new(message) else { continue };
        if artifact.is_test {
            programs.push(artifact.test());
        } else if artifact.kind == "example" {
            examples.push(Example {
                package: artifact.package,
                name: artifact.name,
                program: artifact.program,
            });
        }
    }
    if programs.is_empty() {
        bail!("cargo has built no test. Try: {line}");
    }
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Built { programs, examples })
}

/// The documentation tests, which cargo builds and runs itself.
pub(crate) fn documentation(root: &Path) -> TestProgram {
    let mut command = cargo(root);
    command.args(["test", "--doc", "--workspace", "--all-features", "--locked", "--"]);
    let choice = vec!["--workspace".to_owned(), "--doc".to_owned()];
    // With the variable, cargo would build the dependencies that read it again.
    TestProgram {
        name: "documentation".to_owned(),
        kind: Kind::Compute,
        choice,
        command,
        reports_times: false,
    }
}

/// A program, by a message of cargo.
struct Artifact {
    package: String,
    name: String,
    kind: String,
    is_test: bool,
    program: PathBuf,
    folder: PathBuf,
}

impl Artifact {
    /// The program in a message, if there is one.
    fn new(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" {
            return None;
        }
        let target = &message["target"];
        Some(Self {
            package: package(message["package_id"].as_str()?)?.to_owned(),
            name: target["name"].as_str()?.to_owned(),
            kind: target["kind"].as_array()?.first()?.as_str()?.to_owned(),
            is_test: message["profile"]["test"] == true,
            program: message["executable"].as_str()?.into(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        })
    }

    /// The command runs in the folder of its package, like under cargo.
    fn test(self) -> TestProgram {
        let mut command = Command::new("env");
        // In the background of a script, these signals are ignored. Programs inherit that, and
        // commands keep it: tests that send these signals would wait in vain.
        command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        let target = match self.kind.as_str() {
            kind @ ("bin" | "bench" | "test" | "example") => {
                vec![format!("--{kind}"), self.name.clone()]
            }
            _ => vec!["--lib".to_owned()],
        };
        let (package, name) = (self.package, self.name);
        let kind = known().find(|known| is_known(&package, &name, *known));
        let kind = kind.map_or(Kind::Compute, |known| known.2);
        // A benchmark is no program of libtest.
        let reports_times = self.kind != "bench";
        let name = if self.kind == "test" { name } else { self.kind };
        let choice = ["-p".to_owned(), package.clone()].into_iter().chain(target).collect();
        TestProgram { name: format!("{package} {name}"), kind, choice, command, reports_times }
    }
}

/// Of `path+file:///…/crates/lockkeeper#0.1.0`, or `…#name@0.1.0` where the folder is called
/// otherwise.
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

    fn message(kind: &str, package: &str, name: &str, is_test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///x/{package}","manifest_path":"/x/c/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn a_test_program_is_found_with_its_kind_and_its_repeat_command() {
        let id = "crates/other#lockkeeper-redis@0.1.0";
        let test =
            Artifact::new(&message("test", id, "contract", true, r#""/t/c-1""#)).unwrap().test();
        assert_eq!((test.name.as_str(), test.kind), ("lockkeeper-redis contract", Kind::Sleep));
        assert_eq!(
            test.to_repeat(&["a::b".to_owned()]),
            "cargo test --all-features --locked -p lockkeeper-redis --test contract -- --exact 'a::b'"
        );
        let id = "crates/lockkeeper#0.1.0";
        let unit =
            Artifact::new(&message("lib", id, "lockkeeper", true, r#""/t/l-1""#)).unwrap().test();
        assert_eq!((unit.name.as_str(), unit.kind), ("lockkeeper lib", Kind::Compute));
        assert_eq!(unit.to_repeat(&[]), "cargo test --all-features --locked -p lockkeeper --lib");
        assert!(unit.rank() > test.rank());
    }

    fn options(kind: &str, given: &[&str]) -> (Vec<String>, bool) {
        let id = "crates/lockkeeper#0.1.0";
        let mut test = Artifact::new(&message(kind, id, "it", true, r#""/t/l-1""#)).unwrap().test();
        let given: Vec<_> = given.iter().map(ToString::to_string).collect();
        let command = test.command(&given);
        let words: Vec<_> =
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_set = command.get_envs().any(|(name, value)| name == UNSTABLE.0 && value.is_some());
        (words[2..].to_vec(), is_set)
    }

    #[test]
    fn a_test_program_but_no_benchmark_is_asked_for_times() {
        let times = ["a::b", "--show-output", "--report-time", "-Zunstable-options"];
        assert_eq!(options("test", &["a::b"]), (times.map(str::to_owned).to_vec(), true));
        assert_eq!(options("bench", &[]), (vec!["--show-output".to_owned()], false));
    }

    #[test]
    fn an_option_that_the_user_gives_is_not_given_twice() {
        for given in [
            &["--report-time", "-Zunstable-options", "--show-output"][..],
            &["-Z", "unstable-options"],
        ] {
            let (words, _) = options("test", given);
            let count = |option: &str| words.iter().filter(|word| word.starts_with(option)).count();
            assert_eq!(["--report-time", "-Z", "--show-output"].map(count), [1; 3], "{words:?}");
        }
    }

    #[test]
    fn a_program_that_is_left_out_says_how_to_run_it() {
        let id = "crates/other#lockkeeper-live@0.1.0";
        let test = |name: &str| {
            Artifact::new(&message("test", id, name, true, r#""/t/m-1""#)).unwrap().test()
        };
        let matrix = test("matrix");
        for (given, is_left_out) in [
            (&[][..], true),
            (&["-p", "lockkeeper-live"], true),
            (&["matrix"], true),
            (&["--all"], false),
            (&["--test", "matrix"], false),
        ] {
            let args = Args::new(&given.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(matrix.is_left_out(&args), is_left_out, "{given:?}");
            assert!(!test("it").is_left_out(&args), "{given:?}");
        }
        assert!(matrix.kind == Kind::Sleep && matrix.rank() > test("storms").rank());
        assert!(matrix.rank() < test("unknown").rank());
        assert_eq!(
            matrix.note(),
            "lockkeeper-live matrix. To run it: cargo xtask test -p lockkeeper-live --test matrix; with all others: \
             cargo xtask test --all"
        );
    }

    #[test]
    fn what_has_no_program_is_passed_by() {
        let others = [
            message("lib", "lockkeeper#0.1.0", "x", true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "hello".to_owned(),
        ];
        assert!(others.iter().all(|other| Artifact::new(other).is_none()));
    }

    #[test]
    fn every_kind_that_is_named_is_a_program_of_the_workspace() {
        let crates = crate::root().unwrap().join("crates");
        let stores =
            ["lockkeeper-redis", "lockkeeper-redlock", "lockkeeper-etcd", "lockkeeper-file"];
        for (package, name, _) in KINDS {
            for package in
                package.as_slice().iter().chain(stores.iter().filter(|_| package.is_none()))
            {
                let folder = if *package == "lockkeeper-live" { "live" } else { package };
                let manifest =
                    std::fs::read_to_string(crates.join(folder).join("Cargo.toml")).unwrap();
                assert!(
                    manifest.contains(&format!("[[test]]\nname = \"{name}\"")),
                    "{package} has no test {name}"
                );
            }
        }
    }
}
