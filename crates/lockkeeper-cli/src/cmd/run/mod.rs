//! `lockkeeper run NAME -- CMD`: a command under a lock.
//!
//! ```text
//! find CMD ── connect ── wait in line ── acquired ── started ── supervised ── reaped ── held on ── released
//!                │            │             │ a signal: leave, 128+n                       │ 128+n
//!                └────────────┴─────────────┘                                              └──────────>
//! ```

mod wait;
mod work;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::LockName;
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::args::RunArgs;
use crate::child::environment;
use crate::child::policy::Policy;
use crate::child::signals::Signals;
use crate::child::spawn::{self, Program};
use crate::duration::human;
use crate::event::{Outlets, Place, Reporter};
use crate::exit::{Exit, Failure};
use crate::lock::{self, Connection, Terms};
use crate::locks::{Holding, Locks};
use crate::runtime;
use crate::settings::Settings;

/// Between TERM and KILL when the lock is lost, unless a third of the ttl is less.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// How long leaving the line may take. Below a second, so that a signal ends a wait within one.
const LEAVE: Duration = Duration::from_millis(700);

/// Runs the command under its lock.
pub(crate) async fn run(args: &RunArgs, settings: &Settings, outlets: Outlets) -> Result<Exit, Failure> {
    let reporter = Arc::new(Reporter::new(args.names(), outlets, settings.verbosity));
    Run::prepare(args, settings, reporter)?.connect_and_run().await
}

struct Run<'a> {
    args: &'a RunArgs,
    settings: &'a Settings,
    reporter: Arc<Reporter>,
    program: Program,
    signals: Signals,
    places: UnboundedReceiver<Place>,
    place: UnboundedSender<Place>,
    policy: Policy,
    /// When a signal made us leave.
    leaving: Option<Instant>,
    /// What the runs around this one hold.
    outer: Vec<String>,
}

/// What became of waiting in line.
enum Waited {
    Acquired(Holding),
    /// The name as it was typed.
    Busy(String),
    Interrupted(Signal),
}

impl<'a> Run<'a> {
    /// All that can fail without a store: nothing of it may take a place in line first.
    fn prepare(args: &'a RunArgs, settings: &'a Settings, reporter: Arc<Reporter>) -> Result<Self, Failure> {
        for name in args.names() {
            LockName::new(name).map_err(Failure::usage)?;
        }
        let policy = policy(args, settings)?;
        check_holds(args)?;
        let program = spawn::find(&args.command, std::env::var_os("PATH"))?;
        let signals = Signals::catch().map_err(|error| runtime::refused("signals cannot be caught", &error))?;
        let outer = environment::held_outside(|name| std::env::var_os(name));
        for name in args.names().iter().filter(|name| outer.contains(name)) {
            reporter.warn(&format!(
                "lock {name:?}: this already runs under it (LOCKKEEPER_LOCKS); waiting for it may never end"
            ));
        }
        let (place, places) = unbounded_channel();
        Ok(Self { args, settings, reporter, program, signals, places, place, policy, leaving: None, outer })
    }

    async fn connect_and_run(&mut self) -> Result<Exit, Failure> {
        let (reporter, place) = (Arc::clone(&self.reporter), self.place.clone());
        let terms = Terms { ttl: self.args.ttl, lock_delay: self.args.lock_delay, whole_names: false };
        let connecting = lock::open(self.settings, terms, move |event| reporter.observe(event, &place));
        let connection = tokio::select! {
            biased;
            signal = self.signals.next_ending() => return Ok(Exit::Signal(signal.as_raw())),
            connection = connecting => connection?,
        };
        let ending = self.under_lock(&connection).await;
        // The place in line is given back before we go; if that takes too long, it ends by itself.
        drop(connection.keeper.shutdown(self.time_to_leave()).await);
        ending
    }

    /// What is left of the time that leaving may take, be it for a release or for the rest after it.
    fn time_to_leave(&self) -> Duration {
        LEAVE.saturating_sub(self.leaving.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    async fn under_lock(&mut self, connection: &Connection) -> Result<Exit, Failure> {
        let keeper = &connection.keeper;
        let began = Instant::now();
        let locks = Locks::of(keeper, self.args.names())?;
        self.reporter.know(locks.names().to_vec());
        match self.acquire(keeper, &locks, began).await? {
            Waited::Interrupted(signal) => Ok(Exit::Signal(signal.as_raw())),
            Waited::Busy(name) => {
                let holder = lock::holder(keeper, &name).await;
                self.reporter.busy(&name, began.elapsed(), holder.as_deref());
                Ok(Exit::Busy(self.args.conflict_exit_code))
            }
            Waited::Acquired(holding) => {
                self.reporter.acquired(&holding.each(), began.elapsed(), self.ttl());
                self.work(connection, holding).await
            }
        }
    }

    fn ttl(&self) -> Duration {
        ttl(self.args, self.settings)
    }
}

fn ttl(args: &RunArgs, settings: &Settings) -> Duration {
    args.ttl.unwrap_or(settings.store.ttl)
}

/// The rest of the ttl is for renewals, and for tries after one that failed.
fn policy(args: &RunArgs, settings: &Settings) -> Result<Policy, Failure> {
    let ttl = ttl(args, settings);
    let limit = ttl / 3;
    match args.kill_after {
        Some(kill_after) if kill_after > limit => Err(Failure::usage(format!(
            "--kill-after {} is more than a third of the ttl of {}. Try: at most {}, or a longer --ttl",
            human(kill_after),
            human(ttl),
            human(limit)
        ))),
        kill_after => Ok(Policy::new(args.on_lost, kill_after.unwrap_or(KILL_AFTER.min(limit)), ttl)),
    }
}

fn check_holds(args: &RunArgs) -> Result<(), Failure> {
    match args.max_hold {
        Some(Duration::ZERO) => {
            Err(Failure::usage("--max-hold 0 would lose the lock at once. Try: the longest time that CMD may take"))
        }
        Some(max) if args.min_hold > max => Err(Failure::usage(format!(
            "--min-hold {} is more than --max-hold {}. Try: a longer --max-hold",
            human(args.min_hold),
            human(max)
        ))),
        _ => Ok(()),
    }
}
