//! The one place that starts threads and the runtime, and handles a system that refuses them.

use std::io;
use std::os::fd::AsFd;
use std::thread;

use rustix::io::Errno;
use tokio::runtime::Runtime;

use crate::child::signals;
use crate::exit::{Exit, Failure};

/// More descriptors than a command needs.
const DESCRIPTORS: usize = 24;

/// A check before any file is opened gives one clear message; later there would be a different
/// error at each place, and sometimes a panic.
pub(crate) fn enough_descriptors() -> Result<(), Failure> {
    let stderr = io::stderr();
    let copies = (0..DESCRIPTORS)
        .map(|_| stderr.as_fd().try_clone_to_owned())
        .collect::<io::Result<Vec<_>>>();
    copies.map(drop).map_err(|error| refused("no runtime", &error))
}

/// The runtime of one invocation.
pub(crate) fn start() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| refused("no runtime", &error))
}

/// A thread that is never joined.
pub(crate) fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started =
        signals::with_queued_blocked(|| thread::Builder::new().name(name.to_owned()).spawn(run));
    started.map(drop).map_err(|error| refused("no thread", &error))
}

/// The refusal of the system, with the limit that has to be raised if a limit was met.
pub(crate) fn refused(what: &str, error: &io::Error) -> Failure {
    let Some(remedy) = remedy(error) else {
        return Failure::new(Exit::Internal, format!("{what}: {error}"));
    };
    Failure::new(Exit::System, format!("{what}: {error}. Try: {remedy}"))
}

fn remedy(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some(
            "raise the limit of open files (ulimit -n, or LimitNOFILE= of systemd) to 64 or more",
        ),
        Errno::NFILE => {
            Some("raise the limit of open files of the whole machine (sysctl fs.file-max)")
        }
        Errno::AGAIN => Some(
            "raise the limit of processes (ulimit -u, TasksMax= of systemd, or the pids limit of the container)",
        ),
        Errno::NOMEM => Some(
            "give lockkeeper more memory (ulimit -v, MemoryMax= of systemd, or the container's limit)",
        ),
        _ => None,
    }
}
