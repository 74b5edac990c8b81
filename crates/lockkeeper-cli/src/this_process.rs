//! This process and the terminal: the group of this process, and the signals that stop it.

use nix::sys::signal::SigSet;
use rustix::process::Pid;

/// The group of this process; `None` if the group came from outside of a PID namespace and has no
/// number here.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Whether a write to a terminal from the background stops this process, if the terminal is set so.
/// Must not be used while other processes are started.
pub(crate) fn stop_at_output(stop: bool) {
    let mut output = SigSet::empty();
    output.add(nix::sys::signal::Signal::SIGTTOU);
    // Only an impossible set is refused.
    let _ = if stop { output.thread_unblock() } else { output.thread_block() };
}
