//! The effect of a lost lock on the command: whether the command is ended, how, and when.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use lockkeeper::LostReason;
use rustix::process::Signal;

use super::guard;
use super::lease::Lease;
use super::restart::Restart;
use crate::exit::Exit;

/// All processes are dead this long before the store can grant the lock again, unless the ttl is so
/// short that no time would remain. On a machine with 20 busy programs for each processor, a guard
/// needed more than 100 ms from its alarm to its last kill.
const MARGIN: Duration = Duration::from_millis(250);
/// Longer than any command lives.
const EVER: Duration = Duration::from_secs(1 << 32);

/// The effect of a lost lock on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// TERM, then KILL, both before the store can give the lock away
    Term,
    /// KILL at once, when TERM would be due
    Kill,
    /// Only the event: the command goes on without the lock, and its exit code counts
    Ignore,
}

/// The signal that the command gets when a client requests its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnRequest(pub(crate) Option<Signal>);

impl FromStr for OnRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let signal = match text.strip_prefix("SIG").unwrap_or(text) {
            "ignore" => None,
            "HUP" => Some(Signal::HUP),
            "INT" => Some(Signal::INT),
            "QUIT" => Some(Signal::QUIT),
            "TERM" => Some(Signal::TERM),
            "USR1" => Some(Signal::USR1),
            "USR2" => Some(Signal::USR2),
            _ => {
                return Err(format!(
                    "{text:?} is no signal for a request. Try: TERM, HUP, INT, QUIT, USR1, USR2 or ignore"
                ));
            }
        };
        Ok(Self(signal))
    }
}

/// How the command is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    on_request: OnRequest,
    on_lost: OnLost,
    /// Between TERM and KILL.
    kill_after: Duration,
    /// All is dead this long before the store can give the lock away.
    margin: Duration,
    restart: Restart,
}

impl Policy {
    pub(crate) fn new(
        on_lost: OnLost,
        kill_after: Duration,
        ttl: Duration,
        restart: Restart,
    ) -> Self {
        Self {
            on_request: OnRequest::default(),
            on_lost,
            kill_after,
            margin: MARGIN.min(ttl / 6),
            restart,
        }
    }

    /// The same policy for a command that gets `on_request` when a client requests its lock.
    pub(crate) fn on_request(self, on_request: OnRequest) -> Self {
        Self { on_request, ..self }
    }

    pub(super) fn signal_on_request(self) -> Option<Signal> {
        self.on_request.0
    }

    /// The same with room for a machine that is busy with other tests.
    #[cfg(test)]
    pub(super) fn with_margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    pub(crate) fn ignores_losses(self) -> bool {
        self.on_lost == OnLost::Ignore
    }

    /// The remaining lease at which the silence of the store counts as a loss: the time needed to
    /// end the command.
    pub(crate) fn lead(self) -> Duration {
        if self.ignores_losses() { Duration::ZERO } else { self.kill_after.max(self.margin) }
    }

    /// How the remaining processes of the command are ended after a disorderly end. `None` if they
    /// live on, since the command left them in the background of its own will.
    pub(super) fn clear_away(self, exit: Exit, was_asked: bool) -> Option<Stop> {
        let in_order =
            !was_asked && !matches!(exit, Exit::Signal(_)) && !self.restart.follows(exit);
        (!in_order).then(|| self.by_term())
    }

    /// How a command is ended under a lock that is held.
    pub(super) fn by_term(self) -> Stop {
        let ignores_losses = self.ignores_losses();
        let margin = (!ignores_losses).then_some(self.margin);
        Stop { signal: Signal::TERM, kill_after: self.kill_after, margin, ignores_losses }
    }

    /// Whether so little remains of the lease that the command has to be dead.
    pub(super) fn is_over(self, lease: &impl Lease) -> bool {
        !self.ignores_losses() && lease.remaining() <= self.margin
    }

    /// The time on the guard's clock at which all processes must be dead if `run` sends nothing
    /// more.
    pub(crate) fn kill_time(self, lease: &impl Lease) -> Duration {
        // The clock is read before the lease: a pause in between makes the time too early, never
        // too late.
        let now = guard::now();
        let life = if self.ignores_losses() {
            EVER
        } else {
            lease.remaining().saturating_sub(self.margin)
        };
        now.saturating_add(life)
    }
}

/// Returns whether the store may have granted the lock to another claim already. A break mark
/// leaves the holder its time, and so does the end of `--max-hold`. A claim that the store has
/// deleted or does not know leaves no time.
pub(crate) fn is_certain(reason: &LostReason) -> bool {
    !matches!(reason, LostReason::Broken { .. } | LostReason::MaxHold)
}

/// Why the command has to end, and how.
#[derive(Debug, PartialEq)]
pub(super) struct Loss {
    pub(super) reason: LostReason,
    pub(super) stop: Stop,
}

/// How all that belongs to the command is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stop {
    pub(super) signal: Signal,
    /// Between this signal and KILL.
    pub(super) kill_after: Duration,
    /// The lease is not over yet. At most this much of it may remain when all processes are dead.
    pub(super) margin: Option<Duration>,
    /// A loss during the end changes nothing.
    pub(super) ignores_losses: bool,
}

impl Loss {
    pub(super) fn definite(reason: LostReason, policy: Policy) -> Self {
        match reason {
            reason if is_certain(&reason) => Self::new(reason, OnLost::Kill, Duration::ZERO, None),
            reason => Self::new(reason, policy.on_lost, policy.kill_after, None),
        }
    }

    /// A stopped command cannot put anything in order without going on.
    pub(super) fn while_stopped(reason: LostReason) -> Self {
        Self::new(reason, OnLost::Kill, Duration::ZERO, None)
    }

    pub(super) fn by_silence(reason: LostReason, remaining: Duration, policy: Policy) -> Self {
        let kill_after = remaining.saturating_sub(policy.margin);
        // After a pause of `run`, there may be time only for KILL.
        let on_lost = if kill_after.is_zero() { OnLost::Kill } else { policy.on_lost };
        Self::new(reason, on_lost, kill_after, Some(policy.margin))
    }

    fn new(
        reason: LostReason,
        on_lost: OnLost,
        kill_after: Duration,
        margin: Option<Duration>,
    ) -> Self {
        let (signal, kill_after) = match on_lost {
            OnLost::Kill => (Signal::KILL, Duration::ZERO),
            _ => (Signal::TERM, kill_after),
        };
        Self { reason, stop: Stop { signal, kill_after, margin, ignores_losses: false } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_break_mark_and_max_hold_leave_the_command_its_time() {
        let policy = Policy::new(
            OnLost::Term,
            Duration::from_secs(5),
            Duration::from_secs(30),
            Restart::Never,
        );
        let signal = |reason| Loss::definite(reason, policy).stop.signal;
        let removed = LostReason::Removed { by: "ops".into(), reason: "test".into() };
        for reason in [
            LostReason::Expired,
            LostReason::SessionExpired,
            LostReason::Shutdown,
            LostReason::Forked,
            removed,
        ] {
            assert_eq!(signal(reason), Signal::KILL);
        }
        assert_eq!(
            signal(LostReason::Broken { by: "ops".into(), reason: "test".into() }),
            Signal::TERM
        );
        assert_eq!(signal(LostReason::MaxHold), Signal::TERM);
    }

    #[test]
    fn past_the_deadline_there_is_no_grace() {
        let policy = Policy::new(
            OnLost::Term,
            Duration::from_secs(5),
            Duration::from_secs(30),
            Restart::Never,
        );
        let loss = Loss::definite(LostReason::Expired, policy);
        assert_eq!((loss.stop.signal, loss.stop.kill_after), (Signal::KILL, Duration::ZERO));
        assert_eq!(
            Loss::by_silence(LostReason::Expired, Duration::from_secs(5), policy).stop.kill_after,
            Duration::from_millis(4750)
        );
        // A sixth of a ttl that leaves no 250 ms.
        let policy = Policy::new(
            OnLost::Term,
            Duration::from_millis(100),
            Duration::from_millis(300),
            Restart::Never,
        );
        let loss = Loss::by_silence(LostReason::Expired, Duration::from_millis(100), policy);
        assert_eq!(
            (loss.stop.kill_after, loss.stop.margin),
            (Duration::from_millis(50), Some(Duration::from_millis(50)))
        );
    }
}
