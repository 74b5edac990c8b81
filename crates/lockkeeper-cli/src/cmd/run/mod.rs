//! `lockkeeper run NAME -- CMD` and `lockkeeper elect NAME -- CMD`: a command under a lock, once,
//! or again and again.
//!
//! ```text
//! find CMD ── connect ── wait in line ── acquired ── started ── supervised ── reaped ── held on ── released ── end
//!                │          ^ │             │ a signal: leave, 128+n                       │ 128+n    │
//!                │          │ │             │                                              │          │
//!                └──────────┼─┴─────────────┘                                              └───> end  │
//!                           └──────────────────── elect: a pause, and another campaign ───────────────┘
//! ```

mod again;
mod space;
mod wait;
mod work;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Keeper, LockName, LostReason};
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::args::{CommandArgs, ElectArgs, ModeArgs, RunArgs};
use crate::child::orphans::Orphans;
use crate::child::policy::Policy;
use crate::child::restart::{Backoff, Restart};
use crate::child::signals::{END_A_CANDIDATE, END_A_RUN, Signals};
use crate::child::spawn::{self, Program};
use crate::duration::{Limit, human};
use crate::event::{QueuePosition, Reporter, Sinks};
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::locks::{Holding, Wanted};
use crate::nested::Around;
use crate::runtime;
use crate::settings::Settings;
use crate::waiting::Manner;

/// Between TERM and KILL when the lock is lost, unless a third of the ttl is less.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// How long leaving the line may take. Below a second, so that a signal ends a wait within one.
const LEAVE: Duration = Duration::from_millis(700);

/// The task of a `run` or `elect`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) names: &'a [String],
    wanted: Wanted<'a>,
    wait: Option<Limit>,
    restart: Restart,
    /// The time in which the command begins at most once, if that is wanted.
    once_per: Option<Duration>,
    pub(crate) under: &'a CommandArgs,
}

impl<'a> From<&'a RunArgs> for Task<'a> {
    fn from(args: &'a RunArgs) -> Self {
        let wait = if args.nonblocking || args.once_per.is_some() {
            Some(Limit::For(Duration::ZERO))
        } else {
            args.under.wait
        };
        let (wanted, restart) = (Wanted::Locks(args.mode), Restart::Never);
        Self {
            names: &args.names,
            wanted,
            wait,
            restart,
            once_per: args.once_per,
            under: &args.under,
        }
    }
}

impl<'a> From<&'a ElectArgs> for Task<'a> {
    fn from(args: &'a ElectArgs) -> Self {
        let (names, wanted) =
            (std::slice::from_ref(&args.name), Wanted::Leadership(args.value.as_deref()));
        Self {
            names,
            wanted,
            wait: args.under.wait,
            restart: args.restart,
            once_per: None,
            under: &args.under,
        }
    }
}

impl Task<'_> {
    /// The mode in which the task wants its locks.
    fn mode(&self) -> ModeArgs {
        match self.wanted {
            Wanted::Locks(mode) => mode,
            Wanted::Leadership(_) => ModeArgs::default(),
        }
    }

    /// The exit code when other claims have the lock.
    fn conflict_exit_code(&self) -> u8 {
        if self.once_per.is_some() { 0 } else { self.under.conflict_exit_code }
    }

    /// How long the store has to keep the lock, if the store can. If it cannot, `run` itself keeps
    /// the `--min-hold`, and `--once-per` is refused.
    fn kept_by_store(&self, keeper: &Keeper) -> Duration {
        let can_keep = !keeper.capabilities().min_hold_max.is_zero();
        self.once_per.unwrap_or(if can_keep { self.under.min_hold } else { Duration::ZERO })
    }

    /// Returns whether an option asks a store that keeps locks to keep the lock for longer than the
    /// store can.
    fn holds_too_long(&self, keeper: &Keeper) -> bool {
        let can = keeper.capabilities();
        !can.min_hold_max.is_zero() && can.keeps(self.kept_by_store(keeper)).is_err()
    }

    /// How people see the wait.
    fn manner(&self) -> Manner {
        let repeats = matches!(self.wanted, Wanted::Locks(_));
        Manner { is_silent: self.conflict_exit_code() == 0, repeats }
    }

    /// The signals that end the wait.
    fn ended_by(&self) -> &'static [Signal] {
        match self.wanted {
            Wanted::Locks(_) => END_A_RUN,
            Wanted::Leadership(_) => END_A_CANDIDATE,
        }
    }
}

/// Runs the command under its lock.
pub(crate) async fn run(
    task: Task<'_>,
    settings: &Settings,
    sinks: Sinks,
) -> Result<Exit, Failure> {
    let reporter = Arc::new(Reporter::new(task.names, sinks, settings.verbosity));
    Run::prepare(task, settings, reporter)?.connect_and_run().await
}

struct Run<'a> {
    task: Task<'a>,
    args: &'a CommandArgs,
    settings: &'a Settings,
    reporter: Arc<Reporter>,
    program: Program,
    signals: Signals,
    orphans: Orphans,
    positions: UnboundedReceiver<QueuePosition>,
    position: UnboundedSender<QueuePosition>,
    policy: Policy,
    backoff: Backoff,
    /// When a signal made us leave.
    leaving: Option<Instant>,
    around: Around,
}

/// The outcome of the wait in the queue.
enum Waited {
    Acquired(Box<Holding>),
    /// The lock was lost before the command could start, and the store keeps the lock for the rest
    /// of its minimum hold.
    Lost(Box<Holding>, LostReason),
    /// The name as typed.
    Busy(String),
    Interrupted(Signal),
}

impl<'a> Run<'a> {
    /// All steps that can fail without a store: none of these failures may come after the run has a
    /// place in the queue.
    fn prepare(
        task: Task<'a>,
        settings: &'a Settings,
        reporter: Arc<Reporter>,
    ) -> Result<Self, Failure> {
        for name in task.names {
            LockName::new(name).map_err(Failure::usage)?;
        }
        let args = task.under;
        let policy = policy(&task, settings)?;
        check_holds(args)?;
        let program = spawn::find(&args.command, std::env::var_os("PATH"))?;
        let signals = Signals::catch(task.ended_by())
            .map_err(|error| runtime::refused("signals cannot be caught", &error))?;
        let orphans =
            Orphans::new().map_err(|error| runtime::refused("signals cannot be caught", &error))?;
        let around = Around::of_this_process();
        space::check(task.names, &args.command, around.lines(), settings)?;
        let ((position, positions), backoff) = (unbounded_channel(), Backoff::new());
        let leaving = None;
        Ok(Self {
            task,
            args,
            settings,
            reporter,
            program,
            signals,
            orphans,
            positions,
            position,
            policy,
            backoff,
            leaving,
            around,
        })
    }

    async fn connect_and_run(&mut self) -> Result<Exit, Failure> {
        let (reporter, position) = (Arc::clone(&self.reporter), self.position.clone());
        let terms =
            Terms { ttl: self.args.ttl, lock_delay: self.args.lock_delay, whole_names: false };
        let connecting =
            lock::open(self.settings, terms, move |event| reporter.observe(event, &position));
        let connection = tokio::select! {
            biased;
            signal = self.signals.next_ending() => return Ok(Exit::Signal(signal.as_raw())),
            connection = connecting => connection.map_err(|failure| self.about_the_lock(failure))?,
        };
        let ending = self.until_done(&connection).await;
        // The claim is withdrawn before the program ends; if that takes too long, the claim expires
        // by itself.
        drop(connection.keeper.shutdown(self.time_to_leave()).await);
        ending
    }

    /// An error of the store names the lock, as an error of the attempt does. With several locks
    /// it would be an error of all.
    fn about_the_lock(&self, failure: Failure) -> Failure {
        match self.task.names {
            [name] => failure.about(name),
            _ => failure,
        }
    }

    /// The remaining time for the withdrawal, for a release or for the steps after it.
    fn time_to_leave(&self) -> Duration {
        LEAVE.saturating_sub(self.leaving.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    fn ttl(&self) -> Duration {
        ttl(self.args, self.settings)
    }
}

fn ttl(args: &CommandArgs, settings: &Settings) -> Duration {
    args.ttl.unwrap_or(settings.store.ttl)
}

/// The rest of the ttl is for renewals, and for tries after one that failed.
fn policy(task: &Task<'_>, settings: &Settings) -> Result<Policy, Failure> {
    let args = task.under;
    let ttl = ttl(args, settings);
    let limit = ttl / 3;
    match args.kill_after {
        Some(kill_after) if kill_after > limit => Err(Failure::usage(format!(
            "--kill-after {} is more than a third of the ttl of {}. Try: at most {}, or a longer --ttl",
            human(kill_after),
            human(ttl),
            human(limit)
        ))),
        kill_after => {
            let kill_after = kill_after.unwrap_or(KILL_AFTER.min(limit));
            Ok(Policy::new(args.on_lost, kill_after, ttl, task.restart).on_request(args.on_request))
        }
    }
}

fn check_holds(args: &CommandArgs) -> Result<(), Failure> {
    match args.max_hold {
        Some(Duration::ZERO) => Err(Failure::usage(
            "--max-hold 0 would lose the lock at once. Try: the longest time that CMD may take",
        )),
        Some(max) if args.min_hold > max => Err(Failure::usage(format!(
            "--min-hold {} is more than --max-hold {}. Try: a longer --max-hold",
            human(args.min_hold),
            human(max)
        ))),
        _ => Ok(()),
    }
}
