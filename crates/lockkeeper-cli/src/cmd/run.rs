//! `lockkeeper run NAME -- CMD`: a command under a lock.
//!
//! ```text
//! find CMD ── connect ── wait in line ── acquired ── started ── supervised ── reaped ── released
//!                │            │             │ a signal: leave, 128+n
//!                └────────────┴─────────────┘
//! ```

use std::future::ready;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Error, ErrorKind, Guard, Keeper, LockName, LostReason, Mutex, Release};
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use super::inspect::mode_word;
use crate::args::RunArgs;
use crate::child::environment::{self, Held};
use crate::child::signals::Signals;
use crate::child::spawn::{self, Launch, Program};
use crate::child::supervise::{Ended, Lease, life, supervise};
use crate::duration::{Limit, human, millis};
use crate::event::{Event, Reporter};
use crate::exit::{Exit, Failure};
use crate::lock::{self, Connection, Terms};
use crate::output::complain;
use crate::settings::Settings;

/// Between TERM and KILL when the lock is lost, unless a third of the ttl is less.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// How long a store may take to acknowledge the release; the lock ends by its ttl without it.
const RELEASE: Duration = Duration::from_secs(3);
/// How long leaving the line may take. Below a second, so that a signal ends a wait within one.
const LEAVE: Duration = Duration::from_millis(700);
/// How often a granted lock is looked at until its first renewal is acknowledged.
const FIRM_LOOK: Duration = Duration::from_millis(5);

/// Runs the command and tells how it ended.
pub(crate) async fn run(args: &RunArgs, settings: &Settings) -> Exit {
    let reporter = Arc::new(Reporter::new(&args.name, settings.json, settings.verbosity));
    let ending = match Run::prepare(args, settings, Arc::clone(&reporter)) {
        Ok(mut run) => run.connect_and_run().await,
        Err(failure) => Err(failure),
    };
    let exit = ending.unwrap_or_else(|failure| {
        complain(&failure.message);
        failure.exit
    });
    reporter.exited(exit);
    exit
}

struct Run<'a> {
    args: &'a RunArgs,
    settings: &'a Settings,
    reporter: Arc<Reporter>,
    program: Program,
    signals: Signals,
    places: UnboundedReceiver<u32>,
    place: UnboundedSender<u32>,
    terms: Terms,
    /// When the lock was acquired.
    since: Instant,
}

/// What became of waiting in line.
enum Waited {
    Acquired(Guard),
    Busy,
    Interrupted(Signal),
}

impl<'a> Run<'a> {
    /// All that can fail without a store: nothing of it may take a place in line first.
    fn prepare(args: &'a RunArgs, settings: &'a Settings, reporter: Arc<Reporter>) -> Result<Self, Failure> {
        LockName::new(&args.name).map_err(Failure::usage)?;
        let program = spawn::find(&args.command, std::env::var_os("PATH"))?;
        let signals = Signals::catch()
            .map_err(|error| Failure::new(Exit::Internal, format!("signals cannot be caught: {error}")))?;
        if environment::is_held_outside(&args.name, |name| std::env::var_os(name)) {
            reporter.warn(&format!(
                "lock {:?}: this already runs under it (LOCKKEEPER_LOCKS); waiting for it may never end",
                args.name
            ));
        }
        let (place, places) = unbounded_channel();
        let terms = Terms { ttl: args.ttl, lock_delay: args.lock_delay };
        Ok(Self { args, settings, reporter, program, signals, places, place, terms, since: Instant::now() })
    }

    async fn connect_and_run(&mut self) -> Result<Exit, Failure> {
        let (reporter, place) = (Arc::clone(&self.reporter), self.place.clone());
        let connecting = lock::open(self.settings, self.terms, move |event| reporter.observe(event, &place));
        let connection = tokio::select! {
            biased;
            signal = self.signals.next_ending() => return Ok(Exit::Signal(signal.as_raw())),
            connection = connecting => connection?,
        };
        let ending = self.under_lock(&connection).await;
        // The place in line is given back before we go; if that takes too long, it ends by itself.
        drop(connection.keeper.shutdown(LEAVE).await);
        ending
    }

    async fn under_lock(&mut self, connection: &Connection) -> Result<Exit, Failure> {
        let keeper = &connection.keeper;
        let began = Instant::now();
        let mutex = keeper.mutex(self.args.name.as_str())?;
        match self.acquire(keeper, &mutex, began).await? {
            Waited::Interrupted(signal) => Ok(Exit::Signal(signal.as_raw())),
            Waited::Busy => {
                let holder = lock::holder(keeper, &self.args.name).await;
                self.reporter.busy(began.elapsed(), holder.as_deref());
                Ok(Exit::Busy(self.args.conflict_exit_code))
            }
            Waited::Acquired(guard) => {
                self.since = Instant::now();
                self.report_acquired(&guard, began.elapsed());
                self.with_guard(guard, connection).await
            }
        }
    }

    /// Waits in line until the lock is held for as long as a command needs to be ended; what is lost before is
    /// waited for again.
    async fn acquire(&mut self, keeper: &Keeper, mutex: &Mutex, began: Instant) -> Result<Waited, Failure> {
        let kill_after = self.kill_after();
        loop {
            let waited = self.wait_in_line(keeper, mutex, began).await?;
            let Waited::Acquired(guard) = waited else { return Ok(waited) };
            tokio::select! {
                biased;
                signal = self.signals.next_ending() => {
                    self.release(guard, true).await;
                    return Ok(Waited::Interrupted(signal));
                }
                is_firm = firm(&guard, kill_after) => if is_firm {
                    return Ok(Waited::Acquired(guard));
                }
            }
        }
    }

    async fn wait_in_line(&mut self, keeper: &Keeper, mutex: &Mutex, began: Instant) -> Result<Waited, Failure> {
        let mut attempt = mutex.lock();
        if let Some(limit) = self.wait_limit() {
            attempt = attempt.wait(limit.saturating_sub(began.elapsed()));
        }
        if let Some(reason) = &self.args.reason {
            attempt = attempt.reason(reason);
        }
        let mut attempt = pin!(attempt.into_future());
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next_ending() => return Ok(Waited::Interrupted(signal)),
                result = &mut attempt => {
                    self.report_unseen_places();
                    return granted(result);
                }
                Some(ahead) = self.places.recv() => {
                    let holder = lock::holder(keeper, &self.args.name).await;
                    self.reporter.queued(ahead, holder.as_deref());
                }
            }
        }
    }

    fn wait_limit(&self) -> Option<Duration> {
        match self.args.wait {
            _ if self.args.nonblocking => Some(Duration::ZERO),
            Some(Limit::For(limit)) => Some(limit),
            Some(Limit::Forever) | None => None,
        }
    }

    /// A place in line that became the lock before anybody asked who was ahead.
    fn report_unseen_places(&mut self) {
        while let Ok(ahead) = self.places.try_recv() {
            self.reporter.queued(ahead, None);
        }
    }

    /// Runs the command and releases. Nothing is released before the command is reaped.
    async fn with_guard(&mut self, guard: Guard, connection: &Connection) -> Result<Exit, Failure> {
        // What came since the last look at the signals must not start a command only to end it.
        let pending = tokio::select! {
            biased;
            signal = self.signals.next_ending() => Some(signal),
            () = ready(()) => None,
        };
        if let Some(signal) = pending {
            self.release(guard, true).await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
        let ended = self.run_command(&guard, connection).await;
        let was_lost = ended.as_ref().is_ok_and(|ended| ended.lost);
        let lost_at_release = self.release(guard, was_lost).await;
        let ended = ended?;
        Ok(if ended.lost || lost_at_release { Exit::Lost } else { ended.status.into() })
    }

    async fn run_command(&mut self, guard: &Guard, connection: &Connection) -> Result<Ended, Failure> {
        let stripped =
            if self.args.pass_credentials { Vec::new() } else { environment::stripped(|name| std::env::var_os(name)) };
        let (kill_after, reporter) = (self.kill_after(), Arc::clone(&self.reporter));
        let liveness = connection.liveness().map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        let mut set = environment::set(&[self.held(guard)]);
        set.extend(environment::in_place_of(&stripped));
        let launch = Launch { set: &set, stripped: &stripped, life: life(guard, kill_after), liveness };
        let running = self.program.start(launch)?;
        self.reporter.event(&Event::Started { pid: running.pid() });
        supervise(running, guard, &mut self.signals, kill_after, &reporter).await.map_err(unwaitable)
    }

    /// Gives the lock back. `settled` says that how the run ends is clear already, so that nobody waits for long or
    /// hears of it. Whether the lock turns out to have been lost before.
    async fn release(&mut self, guard: Guard, settled: bool) -> bool {
        let (held, lost) = (self.since.elapsed(), guard.lost());
        let limit = if settled { LEAVE } else { RELEASE };
        let released = tokio::select! {
            released = timeout(limit, guard.release()) => released,
            signal = self.signals.next_ending() => {
                self.report_unreleased(&format!("interrupted by signal {}", signal.as_raw()));
                return false;
            }
        };
        match released {
            Ok(Ok(Release::Done)) => self.reporter.event(&Event::Released { held_ms: millis(held) }),
            Ok(Ok(Release::AlreadyLost)) if !settled => {
                let reason = timeout(Duration::ZERO, lost).await.unwrap_or(LostReason::Expired);
                self.reporter.lost(&reason, None);
                return true;
            }
            Ok(Err(error)) if !settled => self.report_unreleased(&error.to_string()),
            Err(_) if !settled => self.report_unreleased("the store does not answer"),
            _ => {}
        }
        false
    }

    fn report_unreleased(&self, why: &str) {
        let ttl = human(self.ttl());
        self.reporter.warn(&format!("lock {:?}: not released: {why}; it ends by itself within {ttl}", self.args.name));
    }

    fn report_acquired(&self, guard: &Guard, waited: Duration) {
        let held = self.held(guard);
        self.reporter.event(&Event::Acquired {
            mode: held.mode,
            token: &held.token,
            sequencer: &held.sequencer,
            waited_ms: millis(waited),
            ttl_ms: millis(self.ttl()),
        });
    }

    fn held(&self, guard: &Guard) -> Held {
        Held {
            name: self.args.name.clone(),
            token: guard.token().to_string(),
            sequencer: guard.sequencer().to_string(),
            mode: mode_word(&guard.mode()),
        }
    }

    fn ttl(&self) -> Duration {
        self.args.ttl.unwrap_or(self.settings.store.ttl)
    }

    fn kill_after(&self) -> Duration {
        KILL_AFTER.min(self.ttl() / 3)
    }
}

fn granted(result: Result<Guard, Error>) -> Result<Waited, Failure> {
    match result {
        Ok(guard) => Ok(Waited::Acquired(guard)),
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(Waited::Busy),
        Err(error) => Err(error.into()),
    }
}

/// Waits until more than `kill_after` remains: a grant that was pushed gives no time of its own, its first renewal
/// does. Whether it came.
async fn firm(guard: &Guard, kill_after: Duration) -> bool {
    while guard.remaining() <= kill_after {
        if guard.loss().is_some() {
            return false;
        }
        sleep(FIRM_LOOK).await;
    }
    true
}

fn unwaitable(error: io::Error) -> Failure {
    Failure::new(Exit::Internal, format!("the command cannot be waited for: {error}"))
}
