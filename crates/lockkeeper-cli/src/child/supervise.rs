//! The command under its lock: signals are handed on, and a lost lock ends the command before the store can give the
//! lock to somebody else.
//!
//! ```text
//! watch ── the command ends ──────────────────────────────────────────> Ended
//!   │  │                                                                  ^
//!   │  └─ it is stopped: so are we, until we are continued                │
//!   └─ lost ──> TERM (or KILL) ── stop ── everything is gone, or KILL ────┘
//! ```

use std::io;
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use lockkeeper::LostReason;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::orphans;
use super::policy::{Loss, Policy};
use super::running::{Change, Running};
use super::signals::{self, Signals};
use crate::event::Reporter;

/// The runtime's timers stand still while the machine is suspended, the lease does not: look at it this often.
const LOOK: Duration = Duration::from_secs(1);
/// How often what the command left behind is looked at. Nobody tells us of its end.
const LOOK_BEHIND: Duration = Duration::from_millis(10);
/// How long what was killed may take to vanish while we look; the guard goes on after us.
const VANISH: Duration = Duration::from_secs(1);
/// How often the guard is told of what is left of the lease, as a part of that.
const TELL: u32 = 6;
/// The shortest time between two such messages.
const TELL_MIN: Duration = Duration::from_millis(10);

/// What the command's life depends on.
pub(crate) trait Lease {
    /// How long the lock is believed in without another renewal; zero when it is lost.
    fn remaining(&self) -> Duration;
    /// Why it is lost, if it is.
    fn loss(&self) -> Option<LostReason>;
    /// Completes when it is lost. Cancel safe.
    async fn lost(&self) -> LostReason;
    /// What the loss is if nothing more is heard of it.
    fn silent_loss(&self) -> LostReason {
        LostReason::Expired
    }
    /// The lock that is lost, or has the least time left.
    fn weakest(&self) -> &str;
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lock was lost before.
    pub(crate) lost: bool,
    /// Somebody at a terminal could interrupt it, and that we do not hear of.
    pub(crate) had_terminal: bool,
}

/// Waits for the end of the command, which is ended as the policy says when the lock is lost or its deadline is near.
/// When this returns, the command is reaped.
pub(crate) async fn supervise(
    mut running: Running,
    lease: &impl Lease,
    signals: &mut Signals,
    policy: Policy,
    reporter: &Reporter,
) -> io::Result<Ended> {
    match watch(&mut running, lease, signals, policy, reporter).await? {
        Watched::Ended { status, lost } => {
            let had_terminal = running.has_terminal();
            running.dismiss();
            // A machine that slept through the deadline sees the end of the command first, and so does a run that was
            // stopped until the guard killed it.
            let killed = || {
                (status.signal() == Some(Signal::KILL.as_raw()) && policy.is_over(lease)).then(|| lease.silent_loss())
            };
            let loss = lease.loss().or_else(killed).filter(|_| !lost);
            if let Some(reason) = &loss {
                reporter.lost(lease.weakest(), reason, None);
            }
            Ok(Ended { status, lost: lost || loss.is_some(), had_terminal })
        }
        Watched::Lost(loss) => {
            orphans::adopt();
            // Before anything ends: what it started is found by its parents.
            running.is_alive();
            running.signal_group(loss.signal);
            reporter.lost(lease.weakest(), &loss.reason, Some(signals::name(loss.signal)));
            let status = stop(&mut running, lease, signals, &loss).await;
            let had_terminal = running.has_terminal();
            running.abandon();
            orphans::leave_to_pid_1();
            Ok(Ended { status: status?, lost: true, had_terminal })
        }
    }
}

enum Watched {
    /// `lost`: the lock was, and that was to change nothing.
    Ended {
        status: ExitStatus,
        lost: bool,
    },
    Lost(Loss),
}

async fn watch(
    running: &mut Running,
    lease: &impl Lease,
    signals: &mut Signals,
    policy: Policy,
    reporter: &Reporter,
) -> io::Result<Watched> {
    let mut loss = pin!(loss(lease, policy));
    let (mut asked_to_stop, mut lost) = (false, false);
    // Not begun anew by what else happens: signals that come all the time must not keep the guard from hearing of us.
    let mut tell = pin!(sleep(Duration::ZERO));
    loop {
        tokio::select! {
            biased;
            change = running.changed() => match change? {
                Change::Ended(status) => return Ok(Watched::Ended { status, lost }),
                // The guard stops what it kills, and nobody meant us by that.
                Change::Stopped(_) if policy.is_over(lease) => {
                    let reason = lease.loss().unwrap_or_else(|| lease.silent_loss());
                    return Ok(Watched::Lost(Loss::while_stopped(reason)));
                }
                Change::Stopped(signal) => {
                    let next = after_stop(running, signal, mem::take(&mut asked_to_stop));
                    // First of all: the lock may be gone, and then it must not go on for a moment.
                    if let Some(reason) = lease.loss().filter(|_| !policy.ignores_losses()) {
                        return Ok(Watched::Lost(Loss::while_stopped(reason)));
                    }
                    if let AfterStop::GoOn = next {
                        running.resume();
                    }
                }
            },
            loss = &mut loss, if !lost => {
                if !policy.ignores_losses() {
                    return Ok(Watched::Lost(loss));
                }
                reporter.lost(lease.weakest(), &loss.reason, None);
                lost = true;
            }
            signal = signals.next() => match signal {
                Signal::CONT => running.resume_in_foreground(),
                _ => {
                    asked_to_stop |= signal == Signal::TSTP;
                    running.signal_group(signal);
                }
            },
            // A command that may outlive its lock was given all its time at the start.
            () = &mut tell, if !policy.ignores_losses() => {
                running.extend(policy.kill_time(lease));
                tell.as_mut().reset(Instant::now() + (lease.remaining() / TELL).clamp(TELL_MIN, LOOK));
            }
        }
    }
}

/// What is to be done with a command that was stopped.
enum AfterStop {
    GoOn,
    StayStopped,
}

/// Stops this process with its command, where somebody at a terminal or by a signal meant both.
fn after_stop(running: &Running, signal: Signal, asked: bool) -> AfterStop {
    let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
    if wants_terminal && running.may_read_terminal() {
        return AfterStop::GoOn;
    }
    if !asked && !running.has_terminal() {
        return AfterStop::StayStopped;
    }
    running.leave_foreground();
    if running.has_terminal() {
        running.stop_neighbours();
    }
    match signals::pause() {
        false if signal != Signal::TSTP => AfterStop::StayStopped,
        _ => AfterStop::GoOn,
    }
}

async fn loss(lease: &impl Lease, policy: Policy) -> Loss {
    tokio::select! {
        biased;
        reason = lease.lost() => Loss::definite(reason, policy),
        remaining = falls_to(lease, policy.lead()) => Loss::by_silence(lease.silent_loss(), remaining, policy),
    }
}

/// Completes when no more than `limit` of the lease remains.
async fn falls_to(lease: &impl Lease, limit: Duration) -> Duration {
    loop {
        let remaining = lease.remaining();
        if remaining <= limit {
            return remaining;
        }
        sleep((remaining - limit).min(LOOK)).await;
    }
}

/// Waits until everything has ended, with KILL at its time.
async fn stop(running: &mut Running, lease: &impl Lease, signals: &mut Signals, loss: &Loss) -> io::Result<ExitStatus> {
    let mut kill = pin!(kill_time(lease, loss));
    loop {
        tokio::select! {
            biased;
            () = &mut kill => break,
            status = all_ended(running) => return status,
            signal = signals.next() => if !matches!(signal, Signal::TSTP | Signal::CONT) {
                running.signal_group(signal);
            }
        }
    }
    let until = Instant::now() + VANISH;
    while running.kill() && Instant::now() < until {
        sleep(LOOK_BEHIND).await;
    }
    running.ended().await
}

async fn kill_time(lease: &impl Lease, loss: &Loss) {
    let at = Instant::now() + loss.kill_after;
    let Some(margin) = loss.margin else { return sleep_until(at).await };
    // A renewal that comes too late for the command must not keep it alive either, hence both.
    tokio::select! {
        () = sleep_until(at) => {}
        _ = falls_to(lease, margin) => {}
    }
}

/// Completes when the command and all that belongs to it have ended. Cancel safe.
async fn all_ended(running: &mut Running) -> io::Result<ExitStatus> {
    let status = running.ended().await?;
    while running.is_alive() {
        sleep(LOOK_BEHIND).await;
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use rustix::process::Pid;

    use super::*;
    use crate::child::policy::OnLost;
    use crate::child::spawn::{Launch, find};
    use crate::event::Outlets;
    use crate::output::Verbosity;

    /// A lease that nobody renews.
    struct Silent {
        until: Instant,
    }

    impl Lease for Silent {
        fn remaining(&self) -> Duration {
            self.until.saturating_duration_since(Instant::now())
        }

        fn loss(&self) -> Option<LostReason> {
            self.remaining().is_zero().then_some(LostReason::Expired)
        }

        async fn lost(&self) -> LostReason {
            sleep_until(self.until).await;
            LostReason::Expired
        }

        fn weakest(&self) -> &str {
            "a"
        }
    }

    /// A lease that is broken at once, or never lost.
    struct Broken(Cell<bool>);

    impl Lease for Broken {
        fn remaining(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn loss(&self) -> Option<LostReason> {
            self.0.get().then(|| LostReason::Broken { by: "me".into(), reason: "test".into() })
        }

        async fn lost(&self) -> LostReason {
            match self.loss() {
                Some(reason) => reason,
                None => pending().await,
            }
        }

        fn weakest(&self) -> &str {
            "a"
        }
    }

    const MS: Duration = Duration::from_millis(1);

    /// What remains of the lease when all has to be dead. Outside of tests it is 100 ms (`policy`); on a busy machine to
    /// look through all processes, whether it is, takes longer than the kill itself.
    const MARGIN: Duration = Duration::from_secs(4);

    fn silent(life: Duration) -> Silent {
        Silent { until: Instant::now() + life }
    }

    fn policy(on_lost: OnLost, kill_after: Duration) -> Policy {
        Policy::new(on_lost, kill_after, Duration::from_secs(30)).with_margin(MARGIN)
    }

    /// Runs a script; gives its end and what then remained of the lease.
    async fn run(script: &str, lease: &impl Lease, policy: Policy) -> (Ended, Duration) {
        let argv = ["/bin/sh", "-c", script].map(Into::into);
        let launch = Launch { set: &[], stripped: &[], kill_at: policy.kill_time(lease), liveness: None };
        let running = find(&argv, None).unwrap().start(launch).unwrap();
        let group = Pid::from_raw(running.pid().cast_signed()).unwrap();
        let mut signals = Signals::catch().unwrap();
        let reporter = Reporter::new(&["a".into()], Outlets::stderr(false).unwrap(), Verbosity::Errors);
        let ended = supervise(running, lease, &mut signals, policy, &reporter).await.unwrap();
        let remaining = lease.remaining();
        // A zombie counts as dead: it may still wait for being reaped.
        let mut left =
            crate::child::processes::all().unwrap().into_iter().filter(|it| it.group == Some(group) && !it.has_ended);
        assert!(!ended.lost || policy.ignores_losses() || left.next().is_none());
        (ended, remaining)
    }

    #[tokio::test]
    async fn r6_silence_terminates_before_the_deadline() {
        let lease = silent(8000 * MS);
        let (ended, remaining) = run("sleep 60", &lease, policy(OnLost::Term, 7000 * MS)).await;
        assert!(ended.lost);
        assert_eq!(ended.status.signal(), Some(15));
        assert!(remaining > MARGIN && remaining <= 7000 * MS, "{remaining:?}");
    }

    #[tokio::test]
    async fn r6_silence_kills_the_whole_group_before_the_deadline() {
        let lease = silent(5500 * MS);
        // The shell ends at TERM, its child ignores it.
        let script = "(trap '' TERM; sleep 60) & trap 'exit 3' TERM; wait";
        let (ended, remaining) = run(script, &lease, policy(OnLost::Term, 4500 * MS)).await;
        assert_eq!((ended.lost, ended.status.code()), (true, Some(3)));
        assert!(!remaining.is_zero() && remaining <= MARGIN, "{remaining:?}");
    }

    #[tokio::test]
    async fn r6_a_definite_loss_terminates_now_and_kills_after_the_patience() {
        let script = "trap '' TERM; while :; do sleep 0.01; done";
        let start = Instant::now();
        let (ended, _) = run(script, &Broken(Cell::new(true)), policy(OnLost::Term, 300 * MS)).await;
        assert!(ended.lost);
        let took = start.elapsed();
        assert!(took < 5000 * MS, "{took:?}");
    }

    #[tokio::test]
    async fn r9_what_the_command_leaves_behind_lives_on() {
        let start = Instant::now();
        let lease = Broken(Cell::new(false));
        let (ended, _) = run("sleep 10 & exit 7", &lease, policy(OnLost::Term, 300 * MS)).await;
        assert_eq!((ended.lost, ended.status.code()), (false, Some(7)));
        let took = start.elapsed();
        assert!(took < 10_000 * MS, "{took:?}");
    }

    #[tokio::test]
    async fn r6_without_patience_the_kill_still_comes_before_the_deadline() {
        let lease = silent(5000 * MS);
        let script = "trap '' TERM; while :; do sleep 0.01; done";
        let (ended, remaining) = run(script, &lease, policy(OnLost::Term, Duration::ZERO)).await;
        assert_eq!((ended.lost, ended.status.signal()), (true, Some(9)));
        assert!(!remaining.is_zero() && remaining <= MARGIN, "{remaining:?}");
    }

    #[tokio::test]
    async fn r6_kill_comes_when_term_would_be_due() {
        let lease = silent(8000 * MS);
        let (ended, remaining) =
            run("trap 'exit 3' TERM; sleep 60 & wait", &lease, policy(OnLost::Kill, 7000 * MS)).await;
        assert_eq!((ended.lost, ended.status.signal()), (true, Some(9)));
        assert!(remaining > MARGIN && remaining <= 7000 * MS, "{remaining:?}");
    }

    #[tokio::test]
    async fn r6_a_loss_that_is_ignored_changes_nothing() {
        let (lease, start) = (silent(200 * MS), Instant::now());
        let (ended, _) = run("sleep 1; exit 7", &lease, policy(OnLost::Ignore, 100 * MS)).await;
        assert_eq!((ended.lost, ended.status.code()), (true, Some(7)));
        let took = start.elapsed();
        assert!(took >= 990 * MS, "{took:?}");
    }
}
