//! The command under its lock: signals are handed on, and a lost lock ends the command before the store can give the
//! lock to somebody else.
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
use super::running::{Change, Running};
use super::signals::{self, Signals};
use super::stop;
use crate::event::Reporter;
use crate::exit::{Exit, Failure};
use crate::runtime;

/// The runtime's timers stand still while the machine is suspended, the lease does not: look at it this often.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked who belongs to the command: what has lost its parent is found if it was seen before.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// How often the guard is told of what is left of the lease, as a part of that.
const RENEW: u32 = 6;
/// The shortest time between two such messages.
const RENEW_MIN: Duration = Duration::from_millis(10);

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lock was lost before.
    pub(crate) lost: bool,
    /// It ended in its own time, and what it left in the background lives on: nothing may be started after it.
    pub(crate) in_order: bool,
    /// What was typed on the terminal reached the command and not us.
    pub(crate) had_terminal: bool,
    /// It was never executed, for this reason.
    pub(crate) refusal: Option<io::Error>,
}

/// Waits for the end of the command, which is ended as the policy says when the lock is lost or its deadline is near.
/// When this returns, the command is reaped.
pub(crate) async fn supervise(
    mut running: Running,
    lease: &impl Lease,
    signals: &mut Signals,
    policy: Policy,
    reporter: &Reporter,
) -> Result<Ended, Failure> {
    let (status, mut lost, in_order) = match watch(&mut running, lease, signals, policy, reporter)
        .await
        .map_err(unwaitable)?
    {
        Watched::Ended { status, lost } => {
            let exit = status.into();
            let was_signalled = signals.has_term();
            // Where somebody terminates both of us, the end of the command may be seen first.
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
            let status = stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter).await;
            (status.map_err(unwaitable)?, false, false)
        }
        Watched::Unguarded(error) => {
            let stop = policy.by_term();
            let kill_at = stop::begin(&mut running, lease, &stop, false).await;
            stop::finish(&mut running, (lease, policy), signals, &stop, kill_at, reporter).await.map_err(unwaitable)?;
            running.dismiss();
            return Err(runtime::refused("no guard process, so the command was ended", &error));
        }
    };
    let refusal = running.late_refusal();
    let had_terminal = running.holds_terminal();
    let is_by_guard = running.dismiss();
    if !lost && let Some(reason) = unheard_loss(lease, policy, status, is_by_guard) {
        reporter.lost(lease.weakest(), &reason, None);
        lost = true;
    }
    Ok(Ended { status, lost, in_order, had_terminal, refusal })
}

fn report_loss(lease: &impl Lease, reason: &LostReason, signal: &str, reporter: &Reporter) {
    match (reason, lease.remaining()) {
        (LostReason::Expired, left) if !left.is_zero() => reporter.unrenewed(lease.weakest(), left, signal),
        _ => reporter.lost(lease.weakest(), reason, Some(signal)),
    }
}

/// A machine that slept through the deadline sees the end of the command first, and so does a run that was stopped
/// until the guard killed it.
fn unheard_loss(lease: &impl Lease, policy: Policy, status: ExitStatus, is_by_guard: bool) -> Option<LostReason> {
    let was_killed = status.signal() == Some(Signal::KILL.as_raw()) && (is_by_guard || policy.is_over(lease));
    lease.loss().or_else(|| was_killed.then(|| lease.silent_loss()))
}

enum Watched {
    /// `lost`: the lock was, and that was to change nothing.
    Ended {
        status: ExitStatus,
        lost: bool,
    },
    Lost(Loss),
    /// It waits for a terminal that nobody can give it, stopped by this signal.
    Stuck(&'static str),
    /// There is nobody who would end the command in time if we were killed.
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
    // It goes on whatever else happens: signals that come all the time must not keep the guard from hearing of us.
    let mut renewal = pin!(sleep(Duration::ZERO));
    let mut around = look_around();
    loop {
        tokio::select! {
            biased;
            change = running.changed() => match change? {
                Change::Ended(status) => return Ok(Watched::Ended { status, lost }),
                Change::Unguarded(error) => return Ok(Watched::Unguarded(error)),
                // The guard stops what it kills, and nobody meant us by that.
                Change::Stopped(_) if policy.is_over(lease) => {
                    let reason = lease.loss().unwrap_or_else(|| lease.silent_loss());
                    return Ok(Watched::Lost(Loss::while_stopped(reason)));
                }
                Change::Stopped(signal) => {
                    let next = after_stop(running, signal, mem::take(&mut asked_to_stop), signals).await;
                    // First of all: the lock may be gone, and then it must not go on for a moment.
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
            // A command that may outlive its lock was given all its time at the start.
            () = &mut renewal, if !policy.ignores_losses() => {
                renewal.as_mut().reset(Instant::now() + renew_guard(running, lease, policy));
            }
            _ = around.tick() => running.look_around(),
            // After those: one signal may come upon the other for ever.
            signal = signals.next() => match signal {
                // One that came before a stop is no answer to that.
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

/// When to look who belongs to the command. To be kept by who looks: what begins again with each signal never comes.
pub(super) fn look_around() -> Interval {
    let mut around = interval_at(Instant::now() + LOOK_AROUND, LOOK_AROUND);
    around.set_missed_tick_behavior(MissedTickBehavior::Delay);
    around
}

/// Completes with what the command gets when somebody asks for its lock. Cancel safe.
async fn requested(policy: Policy, reporter: &Reporter) -> Signal {
    match policy.signal_on_request() {
        Some(signal) => {
            reporter.requested().await;
            signal
        }
        None => pending().await,
    }
}

/// Sends a signal that came for the command. A guard that does not answer must not make the end of the command late.
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

/// Tells the guard up to when the command may live, and gives when it is to hear more. Of a lock that is lost it has
/// heard enough.
pub(super) fn renew_guard(running: &mut Running, lease: &impl Lease, policy: Policy) -> Duration {
    if policy.ignores_losses() || lease.loss().is_some() {
        return LOOK;
    }
    running.extend(policy.kill_time(lease));
    (lease.remaining() / RENEW).clamp(RENEW_MIN, LOOK)
}

/// What is to be done with a command that was stopped.
enum AfterStop {
    GoOn,
    StayStopped,
    /// Nobody can continue it. In our own group the kernel would have refused it the terminal.
    End,
}

/// Stops this process with its command, where somebody at a terminal or by a signal meant both.
async fn after_stop(running: &mut Running, signal: Signal, asked: bool, signals: &mut Signals) -> AfterStop {
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
    // What the terminal sent to us it sent to our neighbours too.
    match if asked { signals.pause().await } else { signals::pause_group() } {
        // A neighbour may have got the terminal back meanwhile.
        false if is_for_terminal && running.may_read_terminal() => AfterStop::GoOn,
        false if is_for_terminal && !running.awaits_a_neighbour() => AfterStop::End,
        false if signal != Signal::TSTP => AfterStop::StayStopped,
        _ => AfterStop::GoOn,
    }
}

/// Whether too little of the lease is left for a command, or nothing.
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
