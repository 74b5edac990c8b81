//! The command under its lock: signals are handed on, and a lost lock ends the command before the store can give the
//! lock to somebody else.
//!
//! ```text
//! watch ── the command ends ──────────────────────────────────────────> Ended
//!   │                                                                     ^
//!   └─ lost ──> TERM (or KILL) ── stop ── the group is gone, or KILL ─────┘
//! ```

use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use lockkeeper::LostReason;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::signals::{self, Signals};
use super::spawn::Running;
use crate::event::Reporter;

/// All is dead this long before the store can give the lock away.
const MARGIN: Duration = Duration::from_millis(100);
/// The runtime's timers stand still while the machine is suspended, the lease does not: look at it this often.
const LOOK: Duration = Duration::from_secs(1);
/// How often a group whose leader has ended is looked at. Nobody tells us of its end.
const GROUP_LOOK: Duration = Duration::from_millis(10);
/// How long what was killed may take to vanish; a PID 1 that does not reap leaves it in the group for ever.
const VANISH: Duration = Duration::from_secs(1);

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

    fn by_silence(remaining: Duration) -> Self {
        let kill_after = remaining.saturating_sub(MARGIN);
        Self { reason: LostReason::Expired, signal: Signal::TERM, kill_after }
    }
}

/// Waits for the end of the command, which is TERMed when the lock is lost or its deadline is `kill_after` away, and
/// KILLed when that does not help. When this returns, the command is reaped.
pub(crate) async fn supervise(
    running: &mut Running,
    lease: &impl Lease,
    signals: &mut Signals,
    kill_after: Duration,
    reporter: &Reporter,
) -> io::Result<Ended> {
    match watch(running, lease, signals, kill_after).await? {
        Watched::Ended(status) => {
            // A machine that slept through the deadline sees the end of the command first.
            let loss = lease.loss();
            if let Some(reason) = &loss {
                reporter.lost(reason, None);
            }
            Ok(Ended { status, lost: loss.is_some() })
        }
        Watched::Lost(loss) => {
            Running::adopt_orphans();
            running.signal_group(loss.signal);
            reporter.lost(&loss.reason, Some(signals::name(loss.signal)));
            Ok(Ended { status: stop(running, lease, signals, &loss).await?, lost: true })
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
    loop {
        tokio::select! {
            biased;
            status = running.ended() => return Ok(Watched::Ended(status?)),
            loss = &mut loss => return Ok(Watched::Lost(loss)),
            signal = signals.next() => running.signal_group(signal),
        }
    }
}

async fn loss(lease: &impl Lease, kill_after: Duration) -> Loss {
    tokio::select! {
        biased;
        reason = lease.lost() => Loss::definite(reason, kill_after),
        remaining = falls_to(lease, kill_after) => Loss::by_silence(remaining),
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

/// Waits until the whole group has ended, with KILL at its time.
async fn stop(running: &mut Running, lease: &impl Lease, signals: &mut Signals, loss: &Loss) -> io::Result<ExitStatus> {
    let mut kill = pin!(kill_time(lease, loss));
    loop {
        tokio::select! {
            biased;
            () = &mut kill => break,
            status = group_ended(running) => return status,
            signal = signals.next() => running.signal_group(signal),
        }
    }
    running.signal_group(Signal::KILL);
    let status = running.ended().await?;
    drop(timeout(VANISH, group_ended(running)).await);
    Ok(status)
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

/// Completes when the command and all that is left of its group have ended. Cancel safe.
async fn group_ended(running: &mut Running) -> io::Result<ExitStatus> {
    let status = running.ended().await?;
    while running.group_is_alive() {
        sleep(GROUP_LOOK).await;
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::child::spawn::find;
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
        let mut running = find(&argv, None).unwrap().start(&[], &[]).unwrap();
        let mut signals = Signals::catch().unwrap();
        let reporter = Reporter::new("a", false, Verbosity::Errors);
        let start = Instant::now();
        let ended = supervise(&mut running, lease, &mut signals, kill_after, &reporter).await.unwrap();
        assert!(!ended.lost || !running.group_is_alive());
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
        assert_eq!(Loss::by_silence(5000 * MS).kill_after, 4900 * MS);
    }
}
