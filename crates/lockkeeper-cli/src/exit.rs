//! The end of the program: the exit codes, which are the same for all commands, and the failures
//! that lead to them.

use std::fmt;
use std::process::{ExitCode, ExitStatus};

use lockkeeper::{Error, ErrorKind};
use rustix::process::{DumpableBehavior, getpid, set_dumpable_behavior};
use signal_hook::low_level::emulate_default_handler;
use std::os::unix::process::ExitStatusExt;

/// Why and with which code the program ends.
///
/// The numbers of its own are those of sysexits(3) and of shells, which users of cron, CI and
/// `timeout` know. The command of a `run` may return any of them too; the `exited` event
/// distinguishes the two cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: success.
    Ok,
    /// 1: the answer is "no" (`inspect`: the lock is free).
    No,
    /// 64: a command line that can never work, a bad NAME included.
    Usage,
    /// 69: the store could not be reached.
    Unavailable,
    /// 70: a bug.
    Internal,
    /// 71: the system gave no descriptor, process or memory.
    System,
    /// 75, or the code of `-E`: not acquired, since other claims hold the lock.
    Busy(u8),
    /// 74: the answer could not be written.
    Output,
    /// 77: the store refused for lack of rights.
    Denied,
    /// 78: configuration, URL, or not supported by this store.
    Config,
    /// 79: the lock was lost while the command ran.
    Lost,
    /// 126: the command exists but cannot be executed.
    NotExecutable,
    /// 127: the command does not exist.
    NotFound,
    /// Signal n ended the command or, before the command ran, lockkeeper itself. Shells and events
    /// show 128 + n.
    Signal(i32),
    /// The command's own code.
    Child(u8),
}

impl Exit {
    /// The code of [`Exit::Busy`] unless `-E` gives another one.
    pub(crate) const BUSY: u8 = 75;

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::No => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::System => 71,
            Self::Busy(code) | Self::Child(code) => code,
            Self::Output => 74,
            Self::Denied => 77,
            Self::Config => 78,
            Self::Lost => 79,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(n) => u8::try_from(128 + n).unwrap_or(u8::MAX),
        }
    }

    /// Ends this process, by the same signal that ended the command or the wait, so that a shell
    /// whose script was interrupted ends the script.
    pub(crate) fn end(self) -> ExitCode {
        // The kernel protects the first process of a container from signals that it sends to
        // itself.
        if let Self::Signal(signal) = self
            && !getpid().is_init()
        {
            // Only a core file of the command is of use.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _ = emulate_default_handler(signal);
        }
        ExitCode::from(self.code())
    }

    /// The cause in the `exited` event.
    pub(crate) fn cause(self) -> &'static str {
        match self {
            Self::Child(_) => "child",
            Self::Signal(_) => "signal",
            Self::Lost => "lost",
            Self::Busy(_) => "busy",
            _ => "error",
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Child(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Internal,
        }
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout | ErrorKind::QueueFull => Self::Busy(Self::BUSY),
            ErrorKind::Unavailable | ErrorKind::SessionLost | ErrorKind::Closed => {
                Self::Unavailable
            }
            ErrorKind::Denied => Self::Denied,
            // The error is about a NAME or an option; the code that connects knows that there it is
            // about the URL.
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::Mismatch | ErrorKind::Unsupported => Self::Config,
            ErrorKind::Lost => Self::Lost,
            _ => Self::Internal,
        }
    }
}

/// The message for the user before the program ends.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Returns whether no message is needed: a reader that has gone away knows.
    pub(crate) fn is_silent(&self) -> bool {
        self.exit == Exit::Signal(rustix::process::Signal::PIPE.as_raw())
    }

    /// The same failure, about this lock.
    pub(crate) fn about(mut self, name: &str) -> Self {
        if !self.message.starts_with("lock ") {
            self.message = format!("lock {name:?}: {}", self.message);
        }
        self
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message.to_string())
    }

    pub(crate) fn config(message: impl fmt::Display) -> Self {
        Self::new(Exit::Config, message.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_manual() {
        let codes = [
            (Exit::Ok, 0),
            (Exit::No, 1),
            (Exit::Usage, 64),
            (Exit::Unavailable, 69),
            (Exit::Internal, 70),
            (Exit::System, 71),
            (Exit::Output, 74),
            (Exit::Busy(Exit::BUSY), 75),
            (Exit::Busy(0), 0),
            (Exit::Denied, 77),
            (Exit::Config, 78),
            (Exit::Lost, 79),
            (Exit::NotExecutable, 126),
            (Exit::NotFound, 127),
            (Exit::Signal(15), 143),
            (Exit::Child(7), 7),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn busy_and_unavailable_are_distinguished() {
        assert_eq!(Exit::from(ErrorKind::Timeout).code(), 75);
        assert_eq!(Exit::from(ErrorKind::Unavailable).code(), 69);
    }

    #[test]
    fn an_ended_command_keeps_its_code_or_its_signal() {
        assert_eq!(Exit::from(ExitStatus::from_raw(7 << 8)), Exit::Child(7));
        assert_eq!(Exit::from(ExitStatus::from_raw(9)), Exit::Signal(9));
    }
}
