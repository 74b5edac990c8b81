//! The signals that begin and end a pause, in the order in which they came.
//!
//! A process that has several threads runs the handlers of two signals side by side, so that handlers cannot tell which
//! signal came first. The kernel can: a stop removes a CONT that waits to be read, and a CONT removes a stop. So all
//! threads block these signals, and one descriptor gives them to this process (`signalfd(2)`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};

use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signals::set_of;

/// The signals that every thread has to block from its start on.
pub(super) const KEPT: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::CONT];

/// What was read, and what is still to be read.
pub(super) struct Pauses {
    descriptor: AsyncFd<SignalFd>,
    /// The signals that nobody has asked for yet.
    unheard: VecDeque<Signal>,
    latest: Option<Signal>,
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauses").field("unheard", &self.unheard).field("latest", &self.latest).finish_non_exhaustive()
    }
}

impl Pauses {
    #[allow(deprecated, reason = "a SignalFd owns its descriptor, which is what the unsafe successor asks for")]
    pub(super) fn read(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set_of(signals), flags)?;
        let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Self { descriptor, unheard: VecDeque::new(), latest: None })
    }

    /// The next signal.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        loop {
            self.take_all();
            if let Some(signal) = self.unheard.pop_front() {
                return Poll::Ready(signal);
            }
            match ready!(self.descriptor.poll_read_ready(cx)) {
                Ok(mut readable) => readable.clear_ready(),
                // The runtime is at its end, and nothing more will come.
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// Whether the last one of all that came until now is CONT.
    pub(super) fn end_in_cont(&mut self) -> bool {
        self.take_all();
        self.latest == Some(Signal::CONT)
    }

    fn take_all(&mut self) {
        while let Ok(Some(info)) = self.descriptor.get_ref().read_signal() {
            let signal = info.ssi_signo.try_into().ok().and_then(Signal::from_named_raw);
            self.unheard.extend(signal);
            self.latest = signal.or(self.latest);
        }
    }
}
