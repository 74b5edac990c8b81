//! The signals that this process gets, kept in order until somebody asks.

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

/// What is caught for the command to hear of it.
const CAUGHT: [Signal; 7] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH];
/// What begins and ends a pause, which concerns both of us. A thread that does not block it would stop before anybody
/// could read that it came; one that blocks TTOU, which does the same, writes to the terminal from the background.
const PAUSES: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::CONT];

/// The signals that were blocked when this process was started.
static GIVEN: OnceLock<SigSet> = OnceLock::new();
/// What ends the waiting of a run.
pub(crate) const END_A_RUN: &[Signal] =
    &[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
/// What ends the waiting of a candidate. A reload of a service reaches all its candidates, and must not end them.
pub(crate) const END_A_CANDIDATE: &[Signal] = &[Signal::INT, Signal::TERM, Signal::QUIT];

/// Catches signals from its making on, so that none is lost before the command runs.
#[derive(Debug)]
pub(crate) struct Signals {
    /// What handlers give: TTOU, and what comes while a thread blocks nothing.
    handled: Vec<(Signal, unix::Signal)>,
    /// What all threads block; `None` where they block nothing.
    queue: Option<SignalQueue>,
    /// Those that end a wait.
    ending: &'static [Signal],
    /// The set of those that were asked for.
    received: u64,
}

impl Signals {
    /// Signals that were ignored when this process started (nohup, a shell's background job) stay ignored: to catch
    /// them would give the command their default action.
    ///
    /// This thread blocks what is caught, and so does each thread that it starts from then on. A thread that was
    /// started before has to block it already ([`with_queued_blocked`]).
    pub(crate) fn catch(ending: &'static [Signal]) -> io::Result<Self> {
        take_over()?;
        let mut handled = Self::catch_only(&CAUGHT)?.handled;
        handled.extend(Self::catch_only(&[Signal::TTOU])?.handled);
        set_of(CAUGHT).thread_block()?;
        let ignored = ignored();
        let queue = SignalQueue::read(queued().filter(|signal| ignored & mask(*signal) == 0))?;
        Ok(Self { handled, queue: Some(queue), ending, received: 0 })
    }

    /// Leaves all others to their default action.
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

    /// The one that ends who has nothing better to do, if it is there already.
    pub(crate) async fn pending(&mut self) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.next_ending() => Some(signal),
            () = ready(()) => None,
        }
    }

    /// Hears those that ask for the end and are there already. It leaves all others for the next who asks.
    pub(super) fn take_the_rest(&mut self) {
        let asks = |signal: Signal| matches!(signal, Signal::INT | Signal::TERM | Signal::QUIT);
        let asking = self.queue.as_mut().map(|queue| queue.take(asks)).unwrap_or_default();
        self.received |= asking.into_iter().map(mask).fold(0, |all, one| all | one);
    }

    /// Stops this process, as the signal that we caught would have done, until it is continued. Whether somebody could
    /// continue it.
    ///
    /// The signal came to our neighbours too, and stopped them at once. A shell that saw that may have continued all of
    /// us by now, and would not do so again.
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

    /// Forgets those that were heard so far: what they were for has ended.
    pub(crate) fn forget(&mut self) {
        self.received = 0;
    }

    /// Whether TERM was heard.
    pub(super) fn has_term(&self) -> bool {
        self.received & mask(Signal::TERM) != 0
    }

    /// Whether one of those heard asks for the end.
    pub(crate) fn were_to_end(&self) -> bool {
        let asks = |signal: &Signal| !matches!(*signal, Signal::USR1 | Signal::USR2);
        self.ending.iter().filter(|signal| asks(signal)).any(|signal| self.received & mask(*signal) != 0)
    }

    /// Whether a command that ended in this way was asked to. HUP and its like tell services something else, unless
    /// they end by them; what is typed reaches the command alone while it has the terminal.
    pub(crate) fn explain(&self, exit: Exit, had_terminal: bool) -> bool {
        let received = |signal: Signal| self.received & mask(signal) != 0;
        let ended_by = |signal: Signal| exit.code() == Exit::Signal(signal.as_raw()).code();
        [Signal::INT, Signal::TERM, Signal::QUIT].into_iter().any(received)
            || CAUGHT.into_iter().any(|signal| received(signal) && ended_by(signal))
            || had_terminal && [Signal::INT, Signal::QUIT].into_iter().any(ended_by)
    }

    /// The next signal that ends a wait. A pause is only that, and other signals change nothing. Cancel safe.
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

/// What one descriptor gives in its order.
fn queued() -> impl Iterator<Item = Signal> {
    CAUGHT.into_iter().chain(PAUSES)
}

/// Whether it begins or ends a pause, and is nothing else.
pub(super) fn is_a_pause(signal: Signal) -> bool {
    matches!(signal, Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::CONT)
}

/// Stops this process until it is continued.
fn stop() {
    // To this very thread: sent to the process, another thread might take it while this one runs on.
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
}

/// Whether somebody is there to continue this process. The kernel asks the same before it stops one.
fn can_pause() -> bool {
    own_group().is_some_and(|group| !processes::is_orphaned(group))
}

/// Stops this process and its whole group, such as the script around us, until they are continued. One step stops all,
/// so that a shell that sees one of them stopped continues all of them. Whether somebody could continue them.
pub(super) fn pause_group() -> bool {
    let can = can_pause();
    if can {
        let _ = kill_current_process_group(Signal::STOP);
    }
    can
}

/// Prepares this thread, and each that it starts from then on, for [`Signals::catch`]. The parent of this process may
/// have blocked what we live by. The command gets the mask as it was.
pub(crate) fn take_over() -> io::Result<()> {
    let given = SigSet::thread_get_mask()?;
    GIVEN.get_or_init(|| given);
    set_of(CAUGHT.into_iter().chain([Signal::TTOU, Signal::CHILD])).thread_unblock()?;
    Ok(set_of(PAUSES).thread_block()?)
}

/// Does something, such as the start of a thread, with all signals blocked that [`Signals::catch`] reads.
pub(crate) fn with_queued_blocked<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    with_blocked(set_of(queued()), f)
}

/// Makes a file that has met its limit (`ulimit -f`) an error that can be told, where the kernel would end us without a
/// word. The command has the signal as we were given it: a handler does not outlive the start of another program.
pub(crate) fn outlive_a_file_limit() {
    if ignored() & mask(Signal::XFSZ) == 0 {
        drop(flag::register(Signal::XFSZ.as_raw(), Arc::default()));
    }
}

/// Signals as a set.
pub(super) fn set_of(signals: impl IntoIterator<Item = Signal>) -> SigSet {
    signals.into_iter().filter_map(|it| nix::sys::signal::Signal::try_from(it.as_raw()).ok()).collect()
}

/// Does something with the mask that this process was started with: what is started by it begins with that.
pub(super) fn with_given_mask<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(given) = GIVEN.get() else { return f() };
    let before = given.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = f();
    before.thread_set_mask()?;
    result
}

/// Does something with all signals blocked: for what is started by it they stay so.
pub(super) fn with_all_blocked<T>(f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    with_blocked(SigSet::all(), f)
}

fn with_blocked<T>(signals: SigSet, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = f();
    before.thread_set_mask()?;
    result
}

/// Its name without SIG.
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

/// The set of ignored signals. There is no way to ask for it without unsafe code but this file; where it does not
/// exist, none counts as ignored.
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
    fn an_end_is_explained_by_a_signal_that_asks_for_it_or_that_it_came_by() {
        let explained = |received: &[Signal], exit, had_terminal| {
            let received = received.iter().map(|signal| mask(*signal)).sum();
            Signals { handled: Vec::new(), queue: None, ending: END_A_RUN, received }.explain(exit, had_terminal)
        };
        for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
            assert!(explained(&[signal, Signal::WINCH], Exit::Child(1), false), "{signal:?}");
        }
        assert!(!explained(&[Signal::HUP, Signal::USR1], Exit::Child(1), false));
        assert!(explained(&[Signal::HUP], Exit::Signal(Signal::HUP.as_raw()), false));
        // As a shell tells of it.
        assert!(explained(&[Signal::HUP], Exit::Child(129), false));
        assert!(!explained(&[Signal::USR1], Exit::Child(129), false));
        assert!(explained(&[], Exit::Signal(Signal::INT.as_raw()), true));
        assert!(!explained(&[], Exit::Signal(Signal::INT.as_raw()), false));
        assert!(!explained(&[], Exit::Signal(Signal::KILL.as_raw()), true));
    }

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        let ignored = ignored_in("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n").unwrap();
        assert_ne!(ignored & mask(Signal::HUP), 0);
        assert_eq!(ignored & mask(Signal::INT), 0);
        assert_eq!(ignored_in("nothing"), None);
    }
}
