//! The signals of this process, in the order in which the kernel delivers them.
//!
//! A process with several threads runs the handlers of two signals side by side. A handler that has
//! begun may be interrupted for long, so the order of the two signals is lost. Therefore all
//! threads block these signals, and one descriptor delivers them (`signalfd(2)`): a signal that was
//! sent is there to be read. A stop removes a pending CONT, and a CONT removes a pending stop.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};

use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signals::{is_a_pause, set_of};

/// The signals that were read, and the descriptor of the others.
pub(super) struct SignalQueue {
    descriptor: AsyncFd<SignalFd>,
    /// The signals that no caller has taken yet.
    unheard: VecDeque<Signal>,
    latest_pause: Option<Signal>,
}

impl fmt::Debug for SignalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SignalQueue");
        debug
            .field("unheard", &self.unheard)
            .field("latest_pause", &self.latest_pause)
            .finish_non_exhaustive()
    }
}

impl SignalQueue {
    /// Reads these signals, which every thread has to block.
    #[allow(
        deprecated,
        reason = "a SignalFd owns its descriptor, which is what the unsafe successor asks for"
    )]
    pub(super) fn read(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set_of(signals), flags)?;
        let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Self { descriptor, unheard: VecDeque::new(), latest_pause: None })
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
                // The runtime has ended, and no further signal comes.
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// Takes the signals that were sent until now and that `wanted` selects. It leaves all other
    /// signals for the next caller.
    pub(super) fn take(&mut self, wanted: impl Fn(Signal) -> bool) -> Vec<Signal> {
        self.take_all();
        let (taken, left) = self.unheard.drain(..).partition(|signal| wanted(*signal));
        self.unheard = left;
        taken.into()
    }

    /// Returns whether CONT is the last of the stop and continue signals that came until now.
    pub(super) fn ends_in_cont(&mut self) -> bool {
        self.take_all();
        self.latest_pause == Some(Signal::CONT)
    }

    fn take_all(&mut self) {
        while let Ok(Some(info)) = self.descriptor.get_ref().read_signal() {
            let signal = info.ssi_signo.try_into().ok().and_then(Signal::from_named_raw);
            self.unheard.extend(signal);
            self.latest_pause = signal.filter(|it| is_a_pause(*it)).or(self.latest_pause);
        }
    }
}
