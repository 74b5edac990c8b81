//! Client programs, which obey orders line by line, and end with their standard input.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::{Kind, Program};
use crate::order::Order;

/// How long a program may take to start.
const START: Duration = Duration::from_secs(60);

/// A client.
#[derive(Debug)]
pub struct Process {
    kind: Kind,
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Starts a client, and waits until it has connected to the server.
    ///
    /// # Errors
    ///
    /// The client does not start, or cannot connect.
    pub fn start(kind: Kind, programs: &Path, url: &str) -> Result<Self> {
        let mut command = command(kind, programs);
        command.args([kind.name, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let orders = child.stdin.take().context("a program has no standard input")?;
        let output = child.stdout.take().context("a program has no standard output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut process = Self { kind, child, orders, answers };
        let answer = process.answer(START)?;
        if answer != "ready" {
            bail!("{}: said {answer} instead of ready", kind.name);
        }
        Ok(process)
    }

    /// Sends an order.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub fn order(&mut self, order: &Order) -> Result<()> {
        writeln!(self.orders, "{order}").with_context(|| format!("{} has ended", self.kind.name))
    }

    /// The text after `done` in the client's answer.
    ///
    /// # Errors
    ///
    /// The client failed, ended, or did not answer in time.
    pub fn done(&mut self, within: Duration) -> Result<String> {
        let answer = self.answer(within)?;
        match answer.strip_prefix("done") {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("{}: {answer}", self.kind.name),
        }
    }

    fn answer(&mut self, within: Duration) -> Result<String> {
        self.answers.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                anyhow::anyhow!("{} did not answer within {within:?}", self.kind.name)
            }
            RecvTimeoutError::Disconnected => {
                anyhow::anyhow!("{} ended without an answer", self.kind.name)
            }
        })
    }

    /// The processor time of the client, in nanoseconds.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub fn cpu(&self) -> Result<u64> {
        cpu(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(kind: Kind, programs: &Path) -> Command {
    match kind.program {
        Program::Rust => Command::new(programs.join("client")),
        Program::Go => Command::new(programs.join("go-client")),
        Program::Java => {
            let mut java = Command::new("java");
            let classes = format!("{0}/classes:{0}/lib/*", programs.join("java").display());
            java.args(["-Xmx1g", "-cp", &classes, "Client"]);
            java
        }
        Program::Python => {
            let mut python = Command::new(programs.join("python/bin/python"));
            python.arg(programs.join("python/client.py"));
            python
        }
        Program::Node => {
            let mut node = Command::new("node");
            node.arg(programs.join("node/client.mjs"));
            node
        }
    }
}

/// The processor time of a process with all its threads, in nanoseconds.
///
/// # Errors
///
/// The process has ended.
pub fn cpu(id: u32) -> Result<u64> {
    let pid = Pid::from_raw(i32::try_from(id)?);
    let time = clock_getcpuclockid(pid)
        .and_then(nix::time::ClockId::now)
        .context("a process has ended")?;
    Ok(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

/// A command that ends with this program, even after a kill, if `setpriv` is installed.
pub fn ending_with_us(program: &Path, user: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

/// A port that was free a moment ago.
///
/// # Errors
///
/// There is no free port.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
