//! The signals that this process gets, kept in order until somebody asks.

use std::fmt;
use std::future::{poll_fn, ready};
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::flag;
use tokio::signal::unix::{self, SignalKind};
use tokio::task::yield_now;

use super::pauses::{self, Pauses};
use super::processes;
use crate::exit::Exit;

/// What is caught: for the command to hear of it, or, the last one, because a pause concerns both of us.
const CAUGHT: [Signal; 8] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    // A thread that blocks it writes to the terminal from the background, so it is not one of `pauses::KEPT`.
    Signal::TTOU,
];

/// The signals that were blocked when this process was started.
static GIVEN: OnceLock<SigSet> = OnceLock::new();
/// What ends the waiting of a run.
pub(crate) const END_A_RUN: &[Signal] =
    &[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
/// What ends the waiting of a candidate. A reload of a service reaches all its candidates, and must not end them.
pub(crate) const END_A_CANDIDATE: &[Signal] = &[Signal::INT, Signal::TERM, Signal::QUIT];

/// Catches signals from its making on, so that none is lost before the command runs.
pub(crate) struct Signals {
    caught: Vec<(Signal, unix::Signal)>,
    /// Those that end a wait.
    ending: &'static [Signal],
    /// Those of a pause that the kernel keeps in order; `None` where only others are caught.
    pauses: Option<Pauses>,
    /// The set of those that were asked for.
    heard: u64,
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.caught.iter().map(|(signal, _)| signal)).finish()
    }
}

impl Signals {
    /// Signals that whoever started us had ignored (nohup, a shell's background job) stay ignored: to catch them
    /// would give the command their default action.
    pub(crate) fn catch(ending: &'static [Signal]) -> io::Result<Self> {
        take_over()?;
        let ignored = ignored();
        let pauses = pauses::KEPT.into_iter().filter(|signal| ignored & mask(*signal) == 0);
        let pauses = Some(Pauses::read(pauses)?);
        Ok(Self { ending, pauses, ..Self::catch_only(&CAUGHT)? })
    }

    /// Leaves all others to their default action.
    pub(crate) fn catch_only(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let mut caught = Vec::with_capacity(signals.len());
        for &signal in signals {
            if ignored & mask(signal) == 0 {
                caught.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
            }
        }
        Ok(Self { caught, ending: END_A_RUN, pauses: None, heard: 0 })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|cx| {
            for (signal, stream) in &mut self.caught {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            self.pauses.as_mut().map_or(Poll::Pending, |pauses| pauses.poll_next(cx))
        })
        .await;
        self.heard |= mask(signal);
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
    pub(super) async fn hear_the_rest(&mut self) {
        // The signals that came until now are handed out only then.
        yield_now().await;
        let asks = |signal: Signal| matches!(signal, Signal::INT | Signal::TERM | Signal::QUIT);
        for (signal, stream) in self.caught.iter_mut().filter(|(signal, _)| asks(*signal)) {
            if poll_fn(|cx| Poll::Ready(stream.poll_recv(cx).is_ready())).await {
                self.heard |= mask(*signal);
            }
        }
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
        self.pauses.as_mut().is_some_and(Pauses::end_in_cont)
    }

    /// Forgets those that were heard so far: what they were for has ended.
    pub(crate) fn forget(&mut self) {
        self.heard = 0;
    }

    /// Whether TERM was heard.
    pub(super) fn heard_term(&self) -> bool {
        self.heard & mask(Signal::TERM) != 0
    }

    /// Whether one of those heard asks for the end.
    pub(crate) fn were_to_end(&self) -> bool {
        let asks = |signal: &Signal| !matches!(*signal, Signal::USR1 | Signal::USR2);
        self.ending.iter().filter(|signal| asks(signal)).any(|signal| self.heard & mask(*signal) != 0)
    }

    /// Whether a command that ended in this way was asked to. HUP and its like tell services something else, unless
    /// they end by them; what is typed reaches the command alone while it has the terminal.
    pub(crate) fn explain(&self, exit: Exit, had_terminal: bool) -> bool {
        let heard = |signal: Signal| self.heard & mask(signal) != 0;
        let ended_by = |signal: Signal| exit.code() == Exit::Signal(signal.as_raw()).code();
        [Signal::INT, Signal::TERM, Signal::QUIT].into_iter().any(heard)
            || CAUGHT.into_iter().any(|signal| heard(signal) && ended_by(signal))
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
    processes::own_group().is_some_and(|group| !processes::is_orphaned(group))
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
    let ours = CAUGHT.into_iter().chain([Signal::CHILD]);
    set_of(ours).thread_unblock()?;
    Ok(set_of(pauses::KEPT).thread_block()?)
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
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = f();
    before.thread_set_mask()?;
    result
}

/// Whether writing to a terminal from the background stops this process, where the terminal is set so. Not for what
/// is started meanwhile.
pub(crate) fn stop_at_output(stop: bool) {
    let mut output = SigSet::empty();
    output.add(nix::sys::signal::Signal::SIGTTOU);
    // Only an impossible set is refused.
    let _ = if stop { output.thread_unblock() } else { output.thread_block() };
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
        let explained = |heard: &[Signal], exit, had_terminal| {
            let heard = heard.iter().map(|signal| mask(*signal)).sum();
            Signals { caught: Vec::new(), ending: END_A_RUN, pauses: None, heard }.explain(exit, had_terminal)
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
