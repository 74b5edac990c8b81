//! The signals that this process gets, kept in order until they are taken.

use std::future::{poll_fn, ready};
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::flag;
use tokio::signal::unix::{self, SignalKind};

use super::processes;
use super::signal_queue::SignalQueue;
use crate::exit::Exit;
use crate::this_process::own_group;

/// The signals that this process catches in order to pass them to the command.
const CAUGHT: [Signal; 7] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];
/// The signals that begin and end a pause, which concerns `run` and the command. A thread that does
/// not block them would stop before any thread could read them. A thread that blocks TTOU, which
/// also stops, can write to the terminal from the background.
const PAUSES: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::CONT];

/// The signals that were blocked when this process was started.
static GIVEN: OnceLock<SigSet> = OnceLock::new();
/// The signals that end the wait of a run.
pub(crate) const END_A_RUN: &[Signal] =
    &[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
/// The signals that end the wait of a candidate. A reload of a service sends HUP to all its
/// candidates, and must not end them.
pub(crate) const END_A_CANDIDATE: &[Signal] = &[Signal::INT, Signal::TERM, Signal::QUIT];

/// Catches signals from its construction on, so that no signal is lost before the command runs.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The signals with handlers: TTOU, and all signals that come while no thread blocks them.
    handled: Vec<(Signal, unix::Signal)>,
    /// The signals that all threads block; `None` if they block nothing.
    queue: Option<SignalQueue>,
    /// The signals that end a wait.
    ending: &'static [Signal],
    /// The set of the signals that were taken.
    received: u64,
}

impl Signals {
    /// Signals that were ignored when this process started (nohup, a shell's background job) stay
    /// ignored: to catch them would give the command their default action.
    ///
    /// This thread blocks the caught signals, and so does each thread that it starts from then on.
    /// An older thread has to block them already ([`with_queued_blocked`]).
    pub(crate) fn catch(ending: &'static [Signal]) -> io::Result<Self> {
        take_over()?;
        let mut handled = Self::catch_only(&CAUGHT)?.handled;
        handled.extend(Self::catch_only(&[Signal::TTOU])?.handled);
        set_of(CAUGHT).thread_block()?;
        let ignored = ignored();
        let queue = SignalQueue::read(queued().filter(|signal| ignored & mask(*signal) == 0))?;
        Ok(Self { handled, queue: Some(queue), ending, received: 0 })
    }

    /// Leaves all other signals to their default action.
    pub(crate) fn catch_only(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let mut handled = Vec::with_capacity(signals.len());
        for &signal in signals {
            if ignored & mask(signal) == 0 {
                handled.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
            }
        }
        Ok(Self { handled, queue: None, ending: END_A_RUN, received: 0 })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|cx| {
            for (signal, stream) in &mut self.handled {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            self.queue.as_mut().map_or(Poll::Pending, |queue| queue.poll_next(cx))
        })
        .await;
        self.received |= mask(signal);
        signal
    }

    /// The signal that ends a process without other work, if the signal is there already.
    pub(crate) async fn pending(&mut self) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.next_ending() => Some(signal),
            () = ready(()) => None,
        }
    }

    /// Takes the signals that ask for the end and are there already. It leaves all other signals
    /// for the next caller.
    pub(super) fn take_the_rest(&mut self) {
        let asks = |signal: Signal| matches!(signal, Signal::INT | Signal::TERM | Signal::QUIT);
        let asking = self.queue.as_mut().map(|queue| queue.take(asks)).unwrap_or_default();
        self.received |= asking.into_iter().map(mask).fold(0, |all, one| all | one);
    }

    /// Stops this process, as the caught signal would have done, until the process is continued.
    /// Returns whether a process could continue it.
    ///
    /// The signal went to the other processes of the group too, and stopped them at once. A shell
    /// that saw this may have continued the whole group by now, and would not do so again.
    pub(super) async fn pause(&mut self) -> bool {
        let can = can_pause();
        if can && !self.was_continued() {
            stop();
        }
        can
    }

    /// Whether this process was continued since the last signal that asked for a stop.
    pub(super) fn was_continued(&mut self) -> bool {
        self.queue.as_mut().is_some_and(SignalQueue::ends_in_cont)
    }

    /// Forgets the signals that were taken so far: the command or the wait that they were meant for
    /// has ended.
    pub(crate) fn forget(&mut self) {
        self.received = 0;
    }

    /// Returns whether TERM was taken.
    pub(super) fn has_term(&self) -> bool {
        self.received & mask(Signal::TERM) != 0
    }

    /// Returns whether a taken signal asks for the end.
    pub(crate) fn were_to_end(&self) -> bool {
        let asks = |signal: &Signal| !matches!(*signal, Signal::USR1 | Signal::USR2);
        self.ending
            .iter()
            .filter(|signal| asks(signal))
            .any(|signal| self.received & mask(*signal) != 0)
    }

    /// Returns whether a signal asked a command to end that ended in this way. HUP and similar
    /// signals have another meaning for services, unless the service ends by the signal. While the
    /// command has the terminal, a typed signal reaches the command alone.
    pub(crate) fn explain(&self, exit: Exit, had_terminal: bool) -> bool {
        let received = |signal: Signal| self.received & mask(signal) != 0;
        let ended_by = |signal: Signal| exit.code() == Exit::Signal(signal.as_raw()).code();
        [Signal::INT, Signal::TERM, Signal::QUIT].into_iter().any(received)
            || CAUGHT.into_iter().any(|signal| received(signal) && ended_by(signal))
            || had_terminal && [Signal::INT, Signal::QUIT].into_iter().any(ended_by)
    }

    /// The next signal that ends a wait. A stop signal only pauses this process, and other signals
    /// change nothing. Cancel safe.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP | Signal::TTIN | Signal::TTOU => drop(self.pause().await),
                signal if self.ending.contains(&signal) => return signal,
                _ => {}
            }
        }
    }
}

/// The signals that one descriptor delivers in their order.
fn queued() -> impl Iterator<Item = Signal> {
    CAUGHT.into_iter().chain(PAUSES)
}

/// Returns whether a signal begins or ends a pause, and does nothing else.
pub(super) fn is_a_pause(signal: Signal) -> bool {
    matches!(signal, Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::CONT)
}

/// Stops this process until it is continued.
fn stop() {
    // Sends the signal to this thread: another thread might take a signal to the process while this
    // thread runs on.
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
}

/// Returns whether a process is there to continue this one. The kernel checks the same before it
/// stops a process.
fn can_pause() -> bool {
    own_group().is_some_and(|group| !processes::is_orphaned(group))
}

/// Stops this process and its whole group, such as the script around `run`, until they are
/// continued. One step stops all, so that a shell that sees one process stopped continues all of
/// them. Returns whether a process could continue them.
pub(super) fn pause_group() -> bool {
    let can = can_pause();
    if can {
        let _ = kill_current_process_group(Signal::STOP);
    }
    can
}

/// Prepares this thread, and each thread that it starts from then on, for [`Signals::catch`]. The
/// parent of this process may have blocked signals that `run` needs. The command gets the original
/// mask.
pub(crate) fn take_over() -> io::Result<()> {
    let given = SigSet::thread_get_mask()?;
    GIVEN.get_or_init(|| given);
    set_of(CAUGHT.into_iter().chain([Signal::TTOU, Signal::CHILD])).thread_unblock()?;
    Ok(set_of(PAUSES).thread_block()?)
}

/// Runs a closure, such as the start of a thread, with all signals blocked that [`Signals::catch`]
/// reads.
pub(crate) fn with_queued_blocked<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    with_blocked(set_of(queued()), f)
}

/// Turns a file that has met its limit (`ulimit -f`) into an error with a message, where the kernel
/// would end this process silently. The command gets the signal's original action: a handler does
/// not outlive the execution of another program.
pub(crate) fn outlive_a_file_limit() {
    if ignored() & mask(Signal::XFSZ) == 0 {
        drop(flag::register(Signal::XFSZ.as_raw(), Arc::default()));
    }
}

/// Signals as a set.
pub(super) fn set_of(signals: impl IntoIterator<Item = Signal>) -> SigSet {
    signals
        .into_iter()
        .filter_map(|it| nix::sys::signal::Signal::try_from(it.as_raw()).ok())
        .collect()
}

/// Runs a closure with the original mask of this process. A process that the closure starts begins
/// with this mask.
pub(super) fn with_given_mask<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(given) = GIVEN.get() else { return f() };
    let before = given.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = f();
    before.thread_set_mask()?;
    result
}

/// Runs a closure with all signals blocked. In a process that the closure starts, they stay
/// blocked.
pub(super) fn with_all_blocked<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    with_blocked(SigSet::all(), f)
}

fn with_blocked<T>(signals: SigSet, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = f();
    before.thread_set_mask()?;
    result
}

/// The name of a signal without SIG.
pub(crate) fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::TERM => "TERM",
        Signal::KILL => "KILL",
        Signal::TTIN => "TTIN",
        Signal::TTOU => "TTOU",
        _ => "?",
    }
}

fn mask(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// The set of ignored signals. Only this file gives it without unsafe code; where the file does not
/// exist, no signal counts as ignored.
fn ignored() -> u64 {
    std::fs::read_to_string("/proc/self/status").ok().as_deref().and_then(ignored_in).unwrap_or(0)
}

fn ignored_in(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_explained_by_a_signal_that_asked_for_it_or_caused_it() {
        let explained = |received: &[Signal], exit, had_terminal| {
            let received = received.iter().map(|signal| mask(*signal)).sum();
            Signals { handled: Vec::new(), queue: None, ending: END_A_RUN, received }
                .explain(exit, had_terminal)
        };
        for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
            assert!(explained(&[signal, Signal::WINCH], Exit::Child(1), false), "{signal:?}");
        }
        assert!(!explained(&[Signal::HUP, Signal::USR1], Exit::Child(1), false));
        assert!(explained(&[Signal::HUP], Exit::Signal(Signal::HUP.as_raw()), false));
        // A shell reports the signal as this code.
        assert!(explained(&[Signal::HUP], Exit::Child(129), false));
        assert!(!explained(&[Signal::USR1], Exit::Child(129), false));
        assert!(explained(&[], Exit::Signal(Signal::INT.as_raw()), true));
        assert!(!explained(&[], Exit::Signal(Signal::INT.as_raw()), false));
        assert!(!explained(&[], Exit::Signal(Signal::KILL.as_raw()), true));
    }

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        let ignored =
            ignored_in("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n").unwrap();
        assert_ne!(ignored & mask(Signal::HUP), 0);
        assert_eq!(ignored & mask(Signal::INT), 0);
        assert_eq!(ignored_in("nothing"), None);
    }
}
