//! `cargo xtask test`: installs what is missing, then runs every test, and every example.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::{examples, secrets};

/// A server that the tests start.
struct Server {
    /// The program that must be there.
    binary: &'static str,
    /// Debian's package that has it.
    package: &'static str,
    /// The variable by which the tests are told of another one.
    variable: Option<&'static str>,
}

/// What the live tests start. The memory and the file store need no server. A Sentinel is `redis-server --sentinel`.
const SERVERS: &[Server] = &[
    Server { binary: "redis-server", package: "redis-server", variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER") },
    Server { binary: "redis-cli", package: "redis-tools", variable: None },
];

/// How many tests run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Where Debian puts servers that are not on the `PATH` of a user.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let packages = missing(SERVERS, |server| {
        server.variable.is_some_and(|variable| std::env::var_os(variable).is_some()) || is_installed(server.binary)
    });
    if packages.is_empty() {
        eprintln!("xtask: nothing to install");
    } else {
        install(&packages)?;
    }
    let mut test = cargo(root);
    test.args(["test", "--workspace", "--all-features", "--locked"]).args(with_output(args));
    if std::env::var_os(THREADS).is_none() {
        test.env(THREADS, threads().to_string());
    }
    say(&test);
    let (status, mut secrets) = secrets::watch(&mut test, None)?;
    // Who asks for some of the tests does not ask for the examples.
    let passed = status.is_some_and(|status| status.success());
    if passed && args.is_empty() {
        secrets += examples::run(root)?;
    }
    if secrets > 0 {
        bail!("{secrets} lines of the output show a password: see \"a secret was printed\" above");
    }
    Ok(status.map_or(ExitCode::FAILURE, exit_code))
}

/// Most tests wait for something most of the time, so that twice as many of them as there are processors keep these busy.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(2, usize::from)
}

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Shows what passing tests print too, so that it can be looked through.
fn with_output(args: &[String]) -> Vec<String> {
    let mut args = args.to_vec();
    if !args.iter().any(|arg| arg == "--") {
        args.push("--".to_owned());
    }
    args.push("--show-output".to_owned());
    args
}

/// The packages of the servers that are not there, each once.
fn missing(servers: &[Server], is_there: impl Fn(&Server) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> = servers.iter().filter(|server| !is_there(server)).map(|server| server.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn is_installed(binary: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(SBIN.map(Into::into));
    places.any(|place| place.join(binary).is_file())
}

fn install(packages: &[&str]) -> Result<()> {
    let remedy = || format!("install them yourself: {}", packages.join(" "));
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends"]] {
        let mut apt = apt_get(is_root()?);
        apt.args(arguments);
        if arguments[0] == "install" {
            apt.args(packages);
        }
        if !say_and_run(&mut apt).with_context(remedy)?.success() {
            bail!("apt-get failed; {}", remedy());
        }
    }
    // The tests start servers of their own, on other ports; what else runs on this machine is its owner's matter.
    let packages = packages.join(" ");
    eprintln!(
        "xtask: the tests need no service. To stop what Debian may have started: systemctl disable --now {packages}"
    );
    Ok(())
}

/// Never asks: neither sudo for a password nor apt for a decision.
fn apt_get(is_root: bool) -> Command {
    if is_root {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        return apt;
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["--non-interactive", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    sudo
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

fn say_and_run(command: &mut Command) -> Result<ExitStatus> {
    let line = say(command);
    command.status().with_context(|| format!("cannot run {line}"))
}

pub(crate) fn say(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    eprintln!("xtask: {line}");
    line
}

/// The code of the command; 1 when a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn each_missing_package_is_installed_once() {
        let servers = [("a-server", "b"), ("a-cli", "b"), ("here", "c"), ("d-server", "a")]
            .map(|(binary, package)| Server { binary, package, variable: None });
        assert_eq!(missing(&servers, |server| server.binary == "here"), ["a", "b"]);
        assert!(missing(&servers, |_| true).is_empty());
    }

    #[test]
    fn sudo_is_used_only_when_not_root_and_never_asks() {
        assert_eq!(words(&apt_get(true)), ["apt-get"]);
        assert_eq!(words(&apt_get(false))[..2], ["sudo", "--non-interactive"]);
    }

    #[test]
    fn the_output_of_passing_tests_is_asked_for() {
        let args = |args: &[&str]| with_output(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).join(" ");
        assert_eq!(args(&[]), "-- --show-output");
        assert_eq!(args(&["--lib", "--", "x"]), "--lib -- x --show-output");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program-anywhere"));
    }
}
