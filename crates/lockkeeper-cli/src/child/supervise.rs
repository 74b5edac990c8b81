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
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use lockkeeper::LostReason;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::running::{Change, Running};
use super::signals::{self, Signals};
use crate::event::Reporter;

/// All is dead this long before the store can give the lock away.
const MARGIN: Duration = Duration::from_millis(100);
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
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The lock was lost before.
    pub(crate) lost: bool,
}

/// Why the command has to end, and how.
#[derive(Debug, PartialEq)]
struct Loss {
    reason: LostReason,
    signal: Signal,
    kill_after: Duration,
}

impl Loss {
    fn definite(reason: LostReason, kill_after: Duration) -> Self {
        match reason {
            // The store may have given it away already.
            LostReason::Expired => Self { reason, signal: Signal::KILL, kill_after: Duration::ZERO },
            _ => Self { reason, signal: Signal::TERM, kill_after },
        }
    }

    fn by_silence(remaining: Duration, kill_after: Duration) -> Self {
        let kill_after = remaining.saturating_sub(margin(kill_after));
        Self { reason: LostReason::Expired, signal: Signal::TERM, kill_after }
    }
}

/// How long a command may live if nothing more is heard of us: till all must be dead.
pub(crate) fn life(lease: &impl Lease, kill_after: Duration) -> Duration {
    lease.remaining().saturating_sub(margin(kill_after))
}

/// [`MARGIN`], but for a ttl so short that nothing would be left.
fn margin(kill_after: Duration) -> Duration {
    MARGIN.min(kill_after / 2)
}

/// Waits for the end of the command, which is TERMed when the lock is lost or its deadline is `kill_after` away, and
/// KILLed when that does not help. When this returns, the command is reaped.
pub(crate) async fn supervise(
    mut running: Running,
    lease: &impl Lease,
    signals: &mut Signals,
    kill_after: Duration,
    reporter: &Reporter,
) -> io::Result<Ended> {
    match watch(&mut running, lease, signals, kill_after).await? {
        Watched::Ended(status) => {
            running.dismiss();
            // A machine that slept through the deadline sees the end of the command first.
            let loss = lease.loss();
            if let Some(reason) = &loss {
                reporter.lost(reason, None);
            }
            Ok(Ended { status, lost: loss.is_some() })
        }
        Watched::Lost(loss) => {
            Running::adopt_orphans();
            // Before anything ends: what it started is found by its parents.
            running.is_alive();
            running.signal_group(loss.signal);
            reporter.lost(&loss.reason, Some(signals::name(loss.signal)));
            let status = stop(&mut running, lease, signals, &loss).await;
            running.abandon();
            Ok(Ended { status: status?, lost: true })
        }
    }
}

enum Watched {
    Ended(ExitStatus),
    Lost(Loss),
}

async fn watch(
    running: &mut Running,
    lease: &impl Lease,
    signals: &mut Signals,
    kill_after: Duration,
) -> io::Result<Watched> {
    let mut loss = pin!(loss(lease, kill_after));
    let mut asked_to_stop = false;
    loop {
        let told = (lease.remaining() / TELL).clamp(TELL_MIN, LOOK);
        tokio::select! {
            biased;
            change = running.changed() => match change? {
                Change::Ended(status) => return Ok(Watched::Ended(status)),
                Change::Stopped(signal) => match after_stop(running, signal, mem::take(&mut asked_to_stop)) {
                    // First of all: the lock may be gone, and then it must not go on for a moment.
                    _ if lease.loss().is_some() => {}
                    AfterStop::GoOn => running.resume(),
                    AfterStop::StayStopped => {}
                },
            },
            loss = &mut loss => return Ok(Watched::Lost(loss)),
            signal = signals.next() => match signal {
                Signal::CONT => running.resume_in_foreground(),
                _ => {
                    asked_to_stop |= signal == Signal::TSTP;
                    running.signal_group(signal);
                }
            },
            () = sleep(told) => running.extend(life(lease, kill_after)),
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

async fn loss(lease: &impl Lease, kill_after: Duration) -> Loss {
    tokio::select! {
        biased;
        reason = lease.lost() => Loss::definite(reason, kill_after),
        remaining = falls_to(lease, kill_after) => Loss::by_silence(remaining, kill_after),
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
    if loss.reason != LostReason::Expired {
        return sleep_until(at).await;
    }
    // A renewal that comes too late for the command must not keep it alive either, hence both.
    tokio::select! {
        () = sleep_until(at) => {}
        _ = falls_to(lease, MARGIN) => {}
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
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use rustix::process::{Pid, test_kill_process_group};

    use crate::child::spawn::{Launch, find};
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
    }

    const MS: Duration = Duration::from_millis(1);

    /// Runs a script that is ready when it has written to its stdout; gives its end and how long it took.
    async fn run(script: &str, lease: &impl Lease, kill_after: Duration) -> (Ended, Duration) {
        let argv = ["/bin/sh", "-c", script].map(Into::into);
        let launch = Launch { set: &[], stripped: &[], life: life(lease, kill_after), liveness: None };
        let running = find(&argv, None).unwrap().start(launch).unwrap();
        let group = Pid::from_raw(running.pid().cast_signed()).unwrap();
        let mut signals = Signals::catch().unwrap();
        let reporter = Reporter::new("a", false, Verbosity::Errors);
        let start = Instant::now();
        let ended = supervise(running, lease, &mut signals, kill_after, &reporter).await.unwrap();
        assert!(!ended.lost || test_kill_process_group(group).is_err());
        (ended, start.elapsed())
    }

    #[tokio::test]
    async fn r6_silence_terminates_before_the_deadline() {
        let lease = Silent { until: Instant::now() + 3000 * MS };
        let (ended, took) = run("sleep 60", &lease, 1500 * MS).await;
        assert!(ended.lost);
        assert_eq!(ended.status.signal(), Some(15));
        assert!(took >= 1490 * MS && took < 2900 * MS, "{took:?}");
    }

    #[tokio::test]
    async fn r6_silence_kills_the_whole_group_before_the_deadline() {
        let lease = Silent { until: Instant::now() + 2000 * MS };
        // The shell ends at TERM, its child ignores it.
        let script = "(trap '' TERM; sleep 60) & trap 'exit 3' TERM; wait";
        let (ended, took) = run(script, &lease, 1000 * MS).await;
        assert_eq!((ended.lost, ended.status.code()), (true, Some(3)));
        assert!(took >= 1800 * MS && took < 2000 * MS, "{took:?}");
    }

    #[tokio::test]
    async fn r6_a_definite_loss_terminates_now_and_kills_after_the_patience() {
        let script = "trap '' TERM; while :; do sleep 0.01; done";
        let (ended, took) = run(script, &Broken(Cell::new(true)), 300 * MS).await;
        assert!(ended.lost);
        assert!(took < 5000 * MS, "{took:?}");
    }

    #[tokio::test]
    async fn r9_what_the_command_leaves_behind_lives_on() {
        let (ended, took) = run("sleep 3 & exit 7", &Broken(Cell::new(false)), 300 * MS).await;
        assert_eq!((ended.lost, ended.status.code()), (false, Some(7)));
        assert!(took < 3000 * MS, "{took:?}");
    }

    #[test]
    fn past_the_deadline_there_is_no_patience() {
        let loss = Loss::definite(LostReason::Expired, 5000 * MS);
        assert_eq!((loss.signal, loss.kill_after), (Signal::KILL, Duration::ZERO));
        assert_eq!(Loss::by_silence(5000 * MS, 5000 * MS).kill_after, 4900 * MS);
    }
}
