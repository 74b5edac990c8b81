//! A program that reads lines, and answers with lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::nursery::nursery;
use crate::process::TIME_LIMIT;

/// A running program with which a test exchanges lines. Dropping it kills the program. The test
/// shows the program's stderr.
#[derive(Debug)]
pub struct Dialogue {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Dialogue {
    /// Starts the program.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = nursery()?
            .adopt(command)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let (input, output) =
            (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
        let (sender, answers) = channel();
        // The thread ends with the output.
        thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, input, answers })
    }

    /// Sends the program a line.
    ///
    /// # Errors
    /// If the program no longer reads.
    pub fn send(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").with_context(|| format!("nobody listens to {line:?}"))
    }

    /// Waits for the program's next line.
    ///
    /// # Errors
    /// If no line comes within 180 s, or the program has ended its output.
    pub fn answer(&mut self) -> Result<String> {
        self.answer_within(TIME_LIMIT)?
            .ok_or_else(|| anyhow!("a program did not answer within {TIME_LIMIT:?}"))
    }

    /// The program's next line, if the line comes within this time.
    ///
    /// # Errors
    /// If the program has ended its output.
    pub fn answer_within(&mut self, limit: Duration) -> Result<Option<String>> {
        match self.answers.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("a program has ended: {:?}", self.child.wait())
            }
        }
    }

    /// The program's next line, if it has arrived.
    ///
    /// # Errors
    /// If the program has ended its output.
    pub fn answer_now(&mut self) -> Result<Option<String>> {
        self.answer_within(Duration::ZERO)
    }

    /// `SIGSTOP`.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused program go on.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks the program to end by a signal, and waits for the end.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn terminate(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.child.wait().context("cannot wait for a program")
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill a program")?;
        self.child.wait().context("cannot wait for a program")?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // The child is not reaped yet, so it still has this process id.
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot send {signal:?}"))
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        // The process has ended already, or only the watchdog can end it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
