//! The command under its lock. Signals are passed on, and a lost lock ends the command before the
//! store can grant the lock to another claim.
//!
//! ```text
//! watch ── the command ends in order ─────────────────────────────────────> Ended
//!   │  │                                                                      ^
//!   │  ├─ it is stopped: so are we, until we are continued                    │
//!   │  └─ it ends by a signal ──> TERM ── stop ── everything is gone, or KILL ┤
//!   └─ lost ──> TERM (or KILL) ── stop ── everything is gone, or KILL ────────┘
//! ```

use std::future::pending;
use std::io;
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use lockkeeper::LostReason;
use rustix::process::Signal;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use super::lease::Lease;
use super::policy::{Loss, Policy};
use super::processes;
use super::running::{Change, Running};
use super::signals::{self, Signals};
use super::stop;
use crate::event::Reporter;
use crate::exit::{Exit, Failure};
use crate::runtime;

/// The runtime's timers stop while the machine is suspended, and the lease goes on. `run` looks at
/// the lease this often.
const LOOK: Duration = Duration::from_secs(1);
/// How often `run` looks for the processes of the command: an orphan is found only if an earlier
/// look saw it.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// The guard gets the remaining time of the lease after each part of this size.
const RENEW: u32 = 6;
/// The shortest time between two such messages.
const RENEW_MIN: Duration = Duration::from_millis(10);

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lock was lost before.
    pub(crate) lost: bool,
    /// The command ended in its own time, and its background processes live on: no further command
    /// may be started.
    pub(crate) in_order: bool,
    /// Signals typed on the terminal reached the command and not `run`.
    pub(crate) had_terminal: bool,
    /// The command was never executed, for this reason.
    pub(crate) refusal: Option<io::Error>,
    /// The variable in the environment of the command's processes.
    pub(crate) mark: (&'static str, String),
}

/// Waits for the end of the command. When the lock is lost or its deadline is near, the command is
/// ended as the policy says. When this returns, the command is reaped.
pub(crate) async fn supervise(
    mut running: Running,
    lease: &impl Lease,
    signals: &mut Signals,
    policy: Policy,
    reporter: &Reporter,
) -> Result<Ended, Failure> {
    let (status, lost, in_order) = match watch(&mut running, lease, signals, policy, reporter)
        .await
        .map_err(unwaitable)?
    {
        Watched::Ended { status, lost } => {
            let exit = status.into();
            let was_signalled = signals.has_term();
            // If another process terminates both `run` and the command, `run` may see the end of
            // the command first.
            signals.take_the_rest();
            let stop = policy.clear_away(exit, signals.explain(exit, false));
            if let Some(stop) = stop {
                let kill_at = stop::begin(&mut running, lease, &stop, was_signalled).await;
                stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter)
                    .await
                    .map_err(unwaitable)?;
            }
            (status, lost, stop.is_none())
        }
        Watched::Lost(loss) => {
            let Loss { reason, stop } = loss;
            let kill_at = stop::begin(&mut running, lease, &stop, false).await;
            report_loss(lease, &reason, signals::name(stop.signal), reporter);
            (
                stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter)
                    .await
                    .map_err(unwaitable)?,
                true,
                false,
            )
        }
        Watched::Stuck(signal) => {
            reporter.warn(&format!(
                "the command was stopped by {signal} because it has not got the terminal, and no shell can continue \
                 it, so it is ended. Try: lockkeeper in the foreground"
            ));
            let stop = policy.by_term();
            let kill_at = stop::begin(&mut running, lease, &stop, false).await;
            let status =
                stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter)
                    .await;
            (status.map_err(unwaitable)?, false, false)
        }
        Watched::Unguarded(error) => {
            let stop = policy.by_term();
            let kill_at = stop::begin(&mut running, lease, &stop, false).await;
            stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter)
                .await
                .map_err(unwaitable)?;
            running.dismiss();
            return Err(runtime::refused("no guard process, so the command was ended", &error));
        }
    };
    let refusal = running.late_refusal();
    let had_terminal = running.holds_terminal();
    let mark = running.mark();
    let is_by_guard = running.dismiss();
    let lost = lost || report_unheard_loss(lease, policy, status, is_by_guard, reporter);
    Ok(Ended { status, lost, in_order, had_terminal, refusal, mark })
}

fn report_loss(lease: &impl Lease, reason: &LostReason, signal: &str, reporter: &Reporter) {
    match (reason, lease.remaining()) {
        (LostReason::Expired, left) if !left.is_zero() => {
            reporter.unrenewed(lease.weakest(), left, signal)
        }
        _ => reporter.lost(lease.weakest(), reason, Some(signal)),
    }
}

/// Reports the processes with this mark after a loss: they have become daemons, and go on without
/// the lock. The look at all processes takes a while, so it comes after the release.
pub(crate) fn report_daemons(mark: &(&'static str, String), reporter: &Reporter) {
    let daemons: Vec<_> =
        processes::with_variable(mark).iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
    if !daemons.is_empty() {
        reporter.warn(&format!(
            "daemons that the command has started go on without the lock: {}. Try: end them by hand",
            daemons.join(", ")
        ));
    }
}

/// A machine that slept through the deadline sees the end of the command first, and so does a run
/// that was stopped until the guard killed the command.
fn report_unheard_loss(
    lease: &impl Lease,
    policy: Policy,
    status: ExitStatus,
    is_by_guard: bool,
    reporter: &Reporter,
) -> bool {
    let was_killed =
        status.signal() == Some(Signal::KILL.as_raw()) && (is_by_guard || policy.is_over(lease));
    let loss = lease.loss().or_else(|| was_killed.then(|| lease.silent_loss()));
    if let Some(reason) = &loss {
        reporter.lost(lease.weakest(), reason, None);
    }
    loss.is_some()
}

enum Watched {
    /// `lost`: the lock was lost, and the policy ignored the loss.
    Ended {
        status: ExitStatus,
        lost: bool,
    },
    Lost(Loss),
    /// This signal stopped the command: the command waits for a terminal that it cannot get.
    Stuck(&'static str),
    /// No guard would end the command in time if `run` were killed.
    Unguarded(io::Error),
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
    // The renewal timer goes on whatever else happens: a stream of signals must not keep `run` from
    // renewing the guard.
    let mut renewal = pin!(sleep(Duration::ZERO));
    let mut around = look_around();
    loop {
        tokio::select! {
            biased;
            change = running.changed() => match change? {
                Change::Ended(status) => return Ok(Watched::Ended { status, lost }),
                Change::Unguarded(error) => return Ok(Watched::Unguarded(error)),
                // The guard stops processes before it kills them; this stop was not meant for
                // `run`.
                Change::Stopped(_) if policy.is_over(lease) => {
                    let reason = lease.loss().unwrap_or_else(|| lease.silent_loss());
                    return Ok(Watched::Lost(Loss::while_stopped(reason)));
                }
                Change::Stopped(signal) => {
                    let next = after_stop(running, signal, mem::take(&mut asked_to_stop), signals).await;
                    // The loss comes first: the lock may be gone, and then the command must not go
                    // on for a moment.
                    if let Some(reason) = lease.loss().filter(|_| !policy.ignores_losses()) {
                        return Ok(Watched::Lost(Loss::while_stopped(reason)));
                    }
                    match next {
                        AfterStop::GoOn => running.resume(),
                        AfterStop::StayStopped => {}
                        AfterStop::End => return Ok(Watched::Stuck(signals::name(signal))),
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
            signal = requested(policy, reporter) => hand_on(running, signal, lease, policy).await,
            // A command that may outlive its lock got all its time at the start.
            () = &mut renewal, if !policy.ignores_losses() => {
                renewal.as_mut().reset(Instant::now() + renew_guard(running, lease, policy));
            }
            _ = around.tick() => running.look_around(),
            // The signals come after the other branches: one signal may follow the other for ever.
            signal = signals.next() => match signal {
                // A CONT from before a stop does not answer this stop.
                Signal::CONT if !signals.was_continued() => {}
                // The command was sent the stop that this answers.
                Signal::CONT if mem::take(&mut asked_to_stop) => running.resume(),
                Signal::CONT => running.resume_in_foreground(),
                Signal::TTIN | Signal::TTOU if running.yield_terminal() => {}
                Signal::TSTP | Signal::TTIN | Signal::TTOU => {
                    asked_to_stop = true;
                    running.signal(Signal::TSTP).await;
                }
                _ => hand_on(running, signal, lease, policy).await,
            },
        }
    }
}

/// The interval of looks. The caller keeps it: an interval that starts again with each signal never
/// elapses.
pub(super) fn look_around() -> Interval {
    let mut around = interval_at(Instant::now() + LOOK_AROUND, LOOK_AROUND);
    around.set_missed_tick_behavior(MissedTickBehavior::Delay);
    around
}

/// Completes with the signal for the command when a client requests its lock. Cancel safe.
async fn requested(policy: Policy, reporter: &Reporter) -> Signal {
    match policy.signal_on_request() {
        Some(signal) => {
            reporter.requested().await;
            signal
        }
        None => pending().await,
    }
}

/// Passes a signal on to the command. A guard that does not answer must not delay the end of the
/// command.
async fn hand_on(running: &mut Running, signal: Signal, lease: &impl Lease, policy: Policy) {
    let lost = async {
        match policy.ignores_losses() {
            true => pending().await,
            false => drop(loss(lease, policy).await),
        }
    };
    tokio::select! {
        biased;
        () = lost => {}
        () = running.signal(signal) => {}
    }
}

/// Sends the guard the time up to which the command may live, and returns when the next such order
/// is due. For a lost lock the guard gets no more orders.
pub(super) fn renew_guard(running: &mut Running, lease: &impl Lease, policy: Policy) -> Duration {
    if policy.ignores_losses() || lease.loss().is_some() {
        return LOOK;
    }
    running.extend(policy.kill_time(lease));
    (lease.remaining() / RENEW).clamp(RENEW_MIN, LOOK)
}

/// The reaction to a command that was stopped.
enum AfterStop {
    GoOn,
    StayStopped,
    /// No process can continue the command. In the group of `run`, the kernel would have refused it
    /// the terminal.
    End,
}

/// Stops this process with its command, if a person at a terminal or a signal meant both.
async fn after_stop(
    running: &mut Running,
    signal: Signal,
    asked: bool,
    signals: &mut Signals,
) -> AfterStop {
    let is_for_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
    if is_for_terminal {
        running.ask_for_terminal();
        if running.may_read_terminal() {
            return AfterStop::GoOn;
        }
    }
    if !asked && !running.has_terminal() {
        return AfterStop::StayStopped;
    }
    running.leave_foreground();
    // A stop signal from the terminal went to the whole group of `run`.
    match if asked { signals.pause().await } else { signals::pause_group() } {
        // A neighbour may have got the terminal back meanwhile.
        false if is_for_terminal && running.may_read_terminal() => AfterStop::GoOn,
        false if is_for_terminal && !running.awaits_a_neighbour() => AfterStop::End,
        false if signal != Signal::TSTP => AfterStop::StayStopped,
        _ => AfterStop::GoOn,
    }
}

/// Returns the loss if too little of the lease is left for a command, or nothing.
pub(super) fn lost_by_now(lease: &impl Lease, policy: Policy) -> Option<LostReason> {
    lease.loss().or_else(|| (lease.remaining() <= policy.lead()).then(|| lease.silent_loss()))
}

fn unwaitable(error: io::Error) -> Failure {
    Failure::new(Exit::Internal, format!("the command cannot be waited for: {error}"))
}

pub(super) async fn loss(lease: &impl Lease, policy: Policy) -> Loss {
    tokio::select! {
        biased;
        reason = lease.lost() => Loss::definite(reason, policy),
        remaining = falls_to(lease, policy.lead()) => Loss::by_silence(lease.silent_loss(), remaining, policy),
    }
}

/// Completes when no more than `limit` of the lease remains.
pub(super) async fn falls_to(lease: &impl Lease, limit: Duration) -> Duration {
    loop {
        let remaining = lease.remaining();
        if remaining <= limit {
            return remaining;
        }
        sleep((remaining - limit).min(LOOK)).await;
    }
}

#[cfg(test)]
mod tests;
