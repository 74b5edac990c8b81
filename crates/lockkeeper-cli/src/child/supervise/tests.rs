use std::cell::Cell;
use std::sync::Arc;
use std::thread;

use rustix::process::{Pid, getpgid, kill_process};
use tokio::time::sleep_until;

use super::*;
use crate::child::policy::OnLost;
use crate::child::processes;
use crate::child::restart::Restart;
use crate::child::spawn::{Launch, Started, find};
use crate::event::Sinks;
use crate::output::Verbosity;

/// A lease without renewals.
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

/// A lease that is broken at some time, or never lost.
struct Broken(Option<Instant>);

impl Lease for Broken {
    fn remaining(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn loss(&self) -> Option<LostReason> {
        let is_over = self.0.is_some_and(|at| at <= Instant::now());
        is_over.then(|| LostReason::Broken { by: "me".into(), reason: "test".into() })
    }

    async fn lost(&self) -> LostReason {
        loop {
            match (self.loss(), self.0) {
                (Some(reason), _) => return reason,
                (None, Some(at)) => sleep_until(at).await,
                (None, None) => pending().await,
            }
        }
    }

    fn weakest(&self) -> &str {
        "a"
    }
}

const MS: Duration = Duration::from_millis(1);

/// The remaining lease at which all processes have to be dead. Outside of tests it is 250 ms
/// (`policy`). On a busy machine, the check of all processes takes longer than the kill itself.
const MARGIN: Duration = Duration::from_secs(4);

fn silent(life: Duration) -> Silent {
    Silent { until: Instant::now() + life }
}

fn policy(on_lost: OnLost, kill_after: Duration) -> Policy {
    Policy::new(on_lost, kill_after, Duration::from_secs(30), Restart::Never).with_margin(MARGIN)
}

/// Runs a script under a lease that begins when the script was started. Returns the end, and the
/// remaining lease at the end.
async fn run<L: Lease>(
    script: &str,
    lease: impl FnOnce() -> L,
    policy: Policy,
) -> (Ended, Duration) {
    let argv = ["/bin/sh", "-c", script].map(Into::into);
    let reporter =
        Arc::new(Reporter::new(&["a".into()], Sinks::stderr(false).unwrap(), Verbosity::Errors));
    let mut signals = Signals::catch(signals::END_A_RUN).unwrap();
    let (liveness, of_run) = (None, Arc::clone(&reporter));
    // Other tests of this program start other processes.
    let launch = Launch {
        set: &[],
        stripped: &[],
        policy,
        liveness,
        reporter: of_run,
        starts_nobody_else: false,
    };
    let program = find(&argv, None).unwrap();
    let Started::Yes(running) = program.start(launch, &Broken(None), &mut signals).await.unwrap()
    else {
        panic!("no start")
    };
    let group = getpgid(Pid::from_raw(running.pid().cast_signed())).unwrap();
    let lease = lease();
    let ended = supervise(*running, &lease, &mut signals, policy, &reporter).await.unwrap();
    let remaining = lease.remaining();
    // A zombie counts as dead: it may not have been reaped yet.
    let mut left = crate::child::processes::all()
        .unwrap()
        .into_iter()
        .filter(|it| it.group == Some(group) && !it.has_ended);
    assert!(!ended.lost || policy.ignores_losses() || left.next().is_none());
    (ended, remaining)
}

#[tokio::test]
async fn r6_silence_terminates_before_the_deadline() {
    let lease = || silent(13_000 * MS);
    let (ended, remaining) = run("sleep 60", lease, policy(OnLost::Term, 12_000 * MS)).await;
    assert!(ended.lost);
    assert_eq!(ended.status.signal(), Some(15));
    assert!(remaining > MARGIN && remaining <= 12_000 * MS, "{remaining:?}");
}

#[tokio::test]
async fn r6_silence_kills_the_whole_group_before_the_deadline() {
    // The shell ends at TERM, and its child ignores TERM.
    let script = "(trap '' TERM; sleep 60) & trap 'exit 3' TERM; wait";
    let (ended, remaining) =
        run(script, || silent(9000 * MS), policy(OnLost::Term, 4500 * MS)).await;
    assert_eq!((ended.lost, ended.status.code()), (true, Some(3)));
    assert!(!remaining.is_zero() && remaining <= MARGIN, "{remaining:?}");
}

#[tokio::test]
async fn r6_a_definite_loss_terminates_now_and_kills_after_the_grace() {
    let script = "trap '' TERM; while :; do sleep 0.01; done";
    let broken = || Broken(Some(Instant::now() + 3000 * MS));
    // The script would go on for ever.
    let (ended, _) = run(script, broken, policy(OnLost::Term, 300 * MS)).await;
    assert!(ended.lost);
    assert_eq!(ended.status.signal(), Some(9));
}

#[tokio::test]
async fn r9_what_the_command_leaves_behind_lives_on() {
    let start = Instant::now();
    let (ended, _) =
        run("sleep 10 & exit 7", || Broken(None), policy(OnLost::Term, 300 * MS)).await;
    assert_eq!((ended.lost, ended.status.code()), (false, Some(7)));
    let took = start.elapsed();
    assert!(took < 10_000 * MS, "{took:?}");
}

#[tokio::test]
async fn r6_without_grace_the_kill_still_comes_before_the_deadline() {
    let script = "trap '' TERM; while :; do sleep 0.01; done";
    let lease = || silent(8000 * MS);
    let (ended, remaining) = run(script, lease, policy(OnLost::Term, Duration::ZERO)).await;
    assert_eq!((ended.lost, ended.status.signal()), (true, Some(9)));
    assert!(!remaining.is_zero() && remaining <= MARGIN, "{remaining:?}");
}

#[tokio::test]
async fn r6_kill_comes_when_term_would_be_due() {
    let lease = || silent(16_000 * MS);
    let script = "trap 'exit 3' TERM; sleep 60 & wait";
    let (ended, remaining) = run(script, lease, policy(OnLost::Kill, 12_000 * MS)).await;
    assert_eq!((ended.lost, ended.status.signal()), (true, Some(9)));
    assert!(remaining > MARGIN && remaining <= 12_000 * MS, "{remaining:?}");
}

#[tokio::test]
async fn r6_a_loss_that_is_ignored_changes_nothing() {
    let start = Instant::now();
    let (ended, _) =
        run("sleep 1; exit 7", || silent(200 * MS), policy(OnLost::Ignore, 100 * MS)).await;
    assert_eq!((ended.lost, ended.status.code()), (true, Some(7)));
    let took = start.elapsed();
    assert!(took >= 990 * MS, "{took:?}");
}

/// A lease that is lost between two looks at it. At the first look the guard's time has come.
struct Overtaken {
    looks: Cell<u32>,
}

impl Lease for Overtaken {
    fn remaining(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn loss(&self) -> Option<LostReason> {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() > 1 {
            return Some(LostReason::Expired);
        }
        kill_shim("sleep 0.4711");
        None
    }

    async fn lost(&self) -> LostReason {
        pending().await
    }

    fn weakest(&self) -> &str {
        "a"
    }
}

/// Kills the shim of this script, as its guard would.
fn kill_shim(script: &str) {
    let command = |pid: Pid| {
        std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default()
    };
    let line = |pid: Pid| String::from_utf8_lossy(&command(pid)).into_owned();
    let is_it = |pid: Pid| line(pid).contains("__start") && line(pid).contains(script);
    let all = processes::all().unwrap();
    let shim = all.iter().map(|process| process.pid).find(|pid| is_it(*pid)).unwrap();
    kill_process(shim, Signal::KILL).unwrap();
    while processes::Process::of(shim.as_raw_nonzero().get())
        .is_some_and(|process| !process.has_ended)
    {
        thread::yield_now();
    }
}

#[tokio::test]
async fn r8_a_command_killed_by_its_guard_before_its_start_was_lost() {
    let argv = ["/bin/sh", "-c", "sleep 0.4711"].map(Into::into);
    let reporter =
        Arc::new(Reporter::new(&["a".into()], Sinks::stderr(false).unwrap(), Verbosity::Errors));
    let mut signals = Signals::catch(signals::END_A_RUN).unwrap();
    let policy = policy(OnLost::Term, Duration::ZERO);
    let launch = Launch {
        set: &[],
        stripped: &[],
        policy,
        liveness: None,
        reporter,
        starts_nobody_else: false,
    };
    let lease = Overtaken { looks: Cell::new(0) };
    let started = find(&argv, None).unwrap().start(launch, &lease, &mut signals).await;
    assert!(matches!(started, Ok(Started::Lost(LostReason::Expired))), "{started:?}");
}
