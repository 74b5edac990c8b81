//! This process and the terminal: the group that it belongs to, and what stops it.

use nix::sys::signal::SigSet;
use rustix::process::Pid;

/// The group of this process; `None` where it came from outside of a PID namespace and has no number here.
pub(crate) fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Whether writing to a terminal from the background stops this process, where the terminal is set so. Not for what
/// is started meanwhile.
pub(crate) fn stop_at_output(stop: bool) {
    let mut output = SigSet::empty();
    output.add(nix::sys::signal::Signal::SIGTTOU);
    // Only an impossible set is refused.
    let _ = if stop { output.thread_unblock() } else { output.thread_block() };
}
