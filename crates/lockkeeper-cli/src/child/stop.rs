//! The end of all processes of the command: a signal first, and KILL at its time.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, Interval, sleep, sleep_until};

use super::lease::Lease;
use super::orphans;
use super::policy::{Policy, Stop};
use super::running::Running;
use super::signals::{Signals, is_a_pause};
use super::supervise::{falls_to, look_around, renew_guard};
use crate::event::Reporter;

/// How often `run` looks at the background processes of the command, whose end raises no event.
const LOOK_BEHIND: Duration = Duration::from_millis(10);
/// The same interval if no process is visible, but a group has members.
const LOOK_BEHIND_WHAT_IS_HIDDEN: Duration = Duration::from_millis(100);
/// How long killed processes may take to vanish before a warning.
const VANISH: Duration = Duration::from_secs(1);

/// Sends the first signal, or TERM to new processes if the command has got TERM before. Returns
/// when KILL is due.
///
/// If KILL is the first signal, nothing is sent here: a process that is killed before all others
/// are found leaves orphans.
pub(super) async fn begin(
    running: &mut Running,
    lease: &impl Lease,
    stop: &Stop,
    was_signalled: bool,
) -> Instant {
    orphans::adopt();
    let at = Instant::now() + stop.kill_after;
    let send = async {
        match was_signalled {
            true => running.terminate_the_new().await,
            false => running.signal(stop.signal).await,
        }
    };
    if stop.signal != Signal::KILL {
        // A guard that does not answer must not make the kill late.
        tokio::select! {
            biased;
            () = kill_time(lease, stop, at) => {}
            () = send => {}
        }
    }
    at
}

/// Waits until all processes have ended, with KILL at its time. `run` waits for a process that
/// cannot be killed, however long that takes: no other holder may have the lock beside it.
pub(super) async fn finish(
    running: &mut Running,
    (lease, policy): (&impl Lease, Policy),
    signals: &mut Signals,
    stop: &Stop,
    at: Instant,
    reporter: &Reporter,
) -> io::Result<ExitStatus> {
    let ended = end(running, (lease, policy), signals, kill_time(lease, stop, at)).await;
    if ended.is_none() {
        kill(running, (lease, policy), reporter).await;
    }
    match ended {
        Some(ended) => ended,
        None => running.ended().await,
    }
}

/// `None` when the time to kill has come.
async fn end(
    running: &mut Running,
    (lease, policy): (&impl Lease, Policy),
    signals: &mut Signals,
    kill: impl Future<Output = ()>,
) -> Option<io::Result<ExitStatus>> {
    let (mut kill, mut renewal) = (pin!(kill), pin!(sleep(Duration::ZERO)));
    let mut around = look_around();
    loop {
        tokio::select! {
            biased;
            () = &mut kill => return None,
            status = all_ended(running, &mut around) => return Some(status),
            // The lock is renewed meanwhile, and the guard must not end processes before their
            // time.
            () = &mut renewal => renewal.as_mut().reset(Instant::now() + renew_guard(running, lease, policy)),
            signal = signals.next() => if !is_a_pause(signal) {
                tokio::select! {
                    biased;
                    () = &mut kill => return None,
                    () = running.signal(signal) => {}
                }
            }
        }
    }
}

async fn kill_time(lease: &impl Lease, stop: &Stop, at: Instant) {
    let margin = async {
        match stop.margin {
            Some(margin) => drop(falls_to(lease, margin).await),
            None => pending().await,
        }
    };
    // A renewal that comes too late for the command must not keep the command alive either, hence
    // all of these.
    tokio::select! {
        () = sleep_until(at) => {}
        () = margin => {}
        () = lease.given_away(), if !stop.ignores_losses => {}
    }
}

async fn kill(running: &mut Running, (lease, policy): (&impl Lease, Policy), reporter: &Reporter) {
    let (mut pause, mut since) = (LOOK_BEHIND, Some(Instant::now()));
    while running.kill() {
        if since.is_some_and(|since| since.elapsed() > VANISH) {
            since = None;
            pause = VANISH;
            let left = running.left().join(", ");
            reporter.warn(&format!(
                "processes of the command go on after KILL (another user's, or waiting for a device): {left}; \
                 lockkeeper waits for their end"
            ));
        }
        sleep(pause.min(renew_guard(running, lease, policy))).await;
    }
}

/// Completes when all processes of the command have ended. Meanwhile they may start others. Cancel
/// safe.
async fn all_ended(running: &mut Running, around: &mut Interval) -> io::Result<ExitStatus> {
    let status = loop {
        tokio::select! {
            biased;
            status = running.ended() => break status?,
            _ = around.tick() => drop(running.is_alive()),
        }
    };
    // The cost of a full look grows with the machine: there is none while a known process lives.
    loop {
        let pause = match running.one_lives() {
            true => LOOK_BEHIND,
            false if running.is_alive() => LOOK_BEHIND_WHAT_IS_HIDDEN,
            false => return Ok(status),
        };
        tokio::select! {
            biased;
            _ = around.tick() => drop(running.is_alive()),
            () = sleep(pause) => {}
        }
    }
}
