//! `lockkeeper acquire`, `renew` and `release`: a lock over several steps, each a process of its
//! own.
//!
//! Between the grant and the handle file, a failure releases the lock, so that no lock is left
//! behind.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::duration::format_duration;
use lockkeeper::{
    Acquire, Error, ErrorKind, Guard, Handle, Keeper, LockName, LostReason, Mode, Sequencer,
};
use rustix::process::Signal;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout};

use crate::args::{AcquireArgs, HandleArgs, ModeArgs, Permits};
use crate::child::signals::{END_A_RUN, Signals};
use crate::duration::{Limit, human, millis};
use crate::event::{QueuePosition, Reporter, Sinks, reason_word};
use crate::exit::{Exit, Failure};
use crate::handle_file;
use crate::held::mode_word;
use crate::lock::{self, Terms};
use crate::nested::Around;
use crate::output::{answer, complain};
use crate::settings::Settings;
use crate::waiting::{Manner, WaitReporter};

/// How long leaving the line may take. Below a second, so that a signal ends a wait within one.
const LEAVE: Duration = Duration::from_millis(700);

#[derive(Serialize)]
struct Acquired<'a> {
    lock: &'a str,
    mode: &'static str,
    token: String,
    sequencer: String,
    waited_ms: u64,
    ttl_ms: u64,
}

#[derive(Serialize)]
struct Renewed<'a> {
    lock: &'a str,
    held: bool,
    token: String,
    ttl_ms: u64,
    /// The reason of the loss.
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Released<'a> {
    lock: &'a str,
    released: bool,
}

/// Acquires the lock, writes its handle and prints its token.
pub(crate) async fn acquire(args: &AcquireArgs, settings: &Settings) -> Result<Exit, Failure> {
    LockName::new(&args.name).map_err(Failure::usage)?;
    let file = handle_file::HandleFile::prepare(&args.handle_file)?;
    let mut signals = Signals::catch(END_A_RUN).map_err(|error: io::Error| {
        Failure::new(Exit::Internal, format!("signals cannot be caught: {error}"))
    })?;
    let sinks = Sinks::stderr(false)?;
    let reporter =
        Arc::new(Reporter::new(std::slice::from_ref(&args.name), sinks, settings.verbosity));
    let (sender, positions) = unbounded_channel();
    let observer = Arc::clone(&reporter);
    let connecting =
        lock::connect(settings, Terms::default(), move |event| observer.observe(event, &sender));
    let keeper = match unless_ended(&mut signals, connecting).await {
        Ok(keeper) => keeper.map_err(|failure| failure.about(&args.name))?,
        Err(signal) => return Ok(Exit::Signal(signal.as_raw())),
    };
    let wait = Wait { keeper: &keeper, args, settings, reporter: &reporter, positions };
    let ending = wait.acquire(file, &mut signals).await;
    reporter.flush();
    // The claim is withdrawn before the program ends; if that takes too long, the claim expires by
    // itself.
    drop(keeper.shutdown(LEAVE).await);
    ending
}

/// The context of the wait of `acquire`.
struct Wait<'a> {
    keeper: &'a Keeper,
    args: &'a AcquireArgs,
    settings: &'a Settings,
    reporter: &'a Reporter,
    positions: UnboundedReceiver<QueuePosition>,
}

impl Wait<'_> {
    async fn acquire(
        mut self,
        file: handle_file::HandleFile,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let Self { keeper, args, settings, .. } = self;
        let began = Instant::now();
        let (mut attempt, mode) = attempt(keeper, args)?;
        let wait = args.limit();
        let names = vec![(keeper.mutex(args.name.as_str())?.name().clone(), args.name.clone())];
        let around = Around::of_this_process();
        match unless_ended(signals, around.refuse(keeper, &names, args.mode, wait)).await {
            Ok(refused) => refused?,
            Err(signal) => return Ok(Exit::Signal(signal.as_raw())),
        }
        self.reporter.know(names);
        if let Some(Limit::For(limit)) = wait {
            attempt = attempt.wait(limit);
        }
        if let Some(reason) = &args.reason {
            attempt = attempt.reason(reason);
        }
        let handle = match self.in_line(attempt, signals).await {
            Err(signal) => return Ok(Exit::Signal(signal.as_raw())),
            Ok(Err(error)) if error.kind() == ErrorKind::Timeout => return self.busy(began).await,
            Ok(acquired) => acquired.map_err(|error| {
                let can = keeper.capabilities();
                lock::refused(error, can.resumable && !lock::keeps_ttl(&can, args.ttl))
            })?,
        };
        if let Err(failure) = file.fill(&handle) {
            return Err(give_back(keeper, handle, failure).await);
        }
        if let Err(failure) = print_acquired(&args.name, &handle, mode, settings, began.elapsed()) {
            drop(handle_file::remove(&args.handle_file));
            return Err(give_back(keeper, handle, failure).await);
        }
        Ok(Exit::Ok)
    }

    /// `Err` when a signal came first.
    async fn in_line(
        &mut self,
        attempt: Acquire<Guard>,
        signals: &mut Signals,
    ) -> Result<lockkeeper::Result<Handle>, Signal> {
        let manner = Manner { is_silent: false, repeats: true };
        let (owner, name) = (self.settings.owner.as_str(), self.args.name.as_str());
        let mut wait_reporter =
            WaitReporter::new(self.keeper, self.reporter, &mut self.positions, owner, name, manner);
        let detached = attempt.detached(self.args.ttl).into_future();
        let acquired = tokio::select! {
            biased;
            acquired = unless_ended(signals, detached) => acquired,
            never = wait_reporter.run() => match never {},
        };
        wait_reporter.finish();
        acquired
    }

    async fn busy(&self, began: Instant) -> Result<Exit, Failure> {
        let name = &self.args.name;
        self.reporter.away().refuse_timeout(name, began.elapsed())?;
        let line = lock::line(self.keeper, name).await;
        self.reporter.busy(name, self.args.limit(), began.elapsed(), line.as_ref(), false);
        Ok(Exit::Busy(Exit::BUSY))
    }
}

/// `Err` when a signal came first.
async fn unless_ended<T>(
    signals: &mut Signals,
    future: impl Future<Output = T>,
) -> Result<T, Signal> {
    let mut future = pin!(future);
    tokio::select! {
        biased;
        signal = signals.next_ending() => Err(signal),
        output = &mut future => Ok(output),
    }
}

/// The requested attempt, and how the lock will be held.
fn attempt(keeper: &Keeper, args: &AcquireArgs) -> Result<(Acquire<Guard>, Mode), Failure> {
    let name = args.name.as_str();
    Ok(match args.mode {
        ModeArgs { shared: true, .. } => (keeper.rw_lock(name)?.read(), Mode::Shared),
        ModeArgs { permits: Some(Permits { count, of }), .. } => {
            (keeper.semaphore(name, of)?.acquire_many(count), Mode::Permits(count))
        }
        ModeArgs { shared: false, permits: None } => (keeper.mutex(name)?.lock(), Mode::Exclusive),
    })
}

fn print_acquired(
    name: &str,
    handle: &Handle,
    mode: Mode,
    settings: &Settings,
    waited: Duration,
) -> Result<(), Failure> {
    let token = handle.token();
    if !settings.json {
        return answer(&format!("{token}\n"));
    }
    json(&Acquired {
        lock: name,
        mode: mode_word(&mode),
        token: token.to_string(),
        sequencer: Sequencer::new(handle.full_name().clone(), mode, token).to_string(),
        waited_ms: millis(waited),
        ttl_ms: millis(handle.ttl()),
    })
}

/// Releases the lock, since nobody could use it.
async fn give_back(keeper: &Keeper, handle: Handle, mut failure: Failure) -> Failure {
    let ttl = human(handle.ttl());
    let released = match keeper.adopt(handle) {
        Ok(guard) => {
            guard.release().await.or_else(|error| if is_loss(&error) { Ok(()) } else { Err(error) })
        }
        Err(error) => Err(error),
    };
    failure.message.push_str(&match released {
        Ok(()) => "; the lock was released".to_owned(),
        Err(error) => {
            format!("; the lock was not released ({}), and expires within {ttl}", error.message())
        }
    });
    failure
}

/// Starts the lease of the lock again.
pub(crate) async fn renew(args: &HandleArgs, settings: &Settings) -> Result<Exit, Failure> {
    let handle = handle_file::read(&args.handle_file, settings.verbosity)?;
    let (keeper, guard) = adopt(&handle, settings).await?;
    let renewed = answered(settings, guard.renew_once()).await?;
    let name = guard.name().clone();
    drop(guard);
    drop(keeper);
    let lost = match renewed {
        Ok(()) => None,
        Err(error) if is_loss(&error) => Some(error),
        Err(error) => return Err(error.into()),
    };
    if settings.json {
        json(&Renewed {
            lock: name.as_str(),
            held: lost.is_none(),
            token: handle.token().to_string(),
            ttl_ms: millis(handle.ttl()),
            reason: lost.as_ref().and_then(|error| error.lost_reason()).map(reason_word),
        })?;
    }
    Ok(lost.map_or(Exit::Ok, |error| {
        complain(&loss(&error, &name, handle.ttl()));
        Exit::No
    }))
}

/// Releases the lock and deletes its handle. The handle is kept for another try if the lock may
/// still exist.
pub(crate) async fn release(args: &HandleArgs, settings: &Settings) -> Result<Exit, Failure> {
    let handle = handle_file::read(&args.handle_file, settings.verbosity)?;
    let (keeper, guard) = adopt(&handle, settings).await?;
    let name = guard.name().clone();
    let lost = match answered(settings, guard.release()).await? {
        Ok(()) => None,
        Err(error) if is_loss(&error) => Some(error),
        Err(error) => return Err(error.into()),
    };
    drop(keeper.shutdown(LEAVE).await);
    // Another release of the same handle may have come first, and all is done.
    let was_first = handle_file::remove(&args.handle_file)?;
    let lost = lost.filter(|_| was_first);
    if settings.json {
        json(&Released { lock: name.as_str(), released: lost.is_none() })?;
    }
    Ok(lost.map_or(Exit::Ok, |error| {
        complain(&loss(&error, &name, handle.ttl()));
        Exit::No
    }))
}

/// The message about a loss. A store keeps no trace of an expired claim, so the error cannot say
/// whether the claim expired or was deleted. Nearly always it expired.
fn loss(error: &Error, name: &LockName, ttl: Duration) -> String {
    let is_gone =
        matches!(error.lost_reason(), Some(LostReason::Forgotten | LostReason::SessionExpired));
    if !is_gone {
        return error.to_string();
    }
    format!(
        "lock {:?}: the lock was lost: it was not renewed within its ttl of {}, or the store lost its data, or the \
         lock was deleted. Try: stop working on what it protects, and acquire it again, with a longer --ttl or an \
         earlier renew",
        name.as_str(),
        format_duration(ttl)
    )
}

fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::Lost
}

async fn adopt(handle: &Handle, settings: &Settings) -> Result<(Keeper, Guard), Failure> {
    if lock::is_missing(settings)? {
        let (url, name) = (&settings.store.url, handle.full_name().as_str());
        let remedy = "Try: the --store on which the lock was acquired; if its file was deleted, rm the handle file";
        let theirs = handle.store();
        return Err(Failure::config(format!(
            "lock {name:?} of {theirs}: {url} is not there. {remedy}"
        )));
    }
    // A handle has the full name. Outside of the present prefix there is no shorter name to show.
    let prefix = settings.name_prefix();
    let whole_names = handle.full_name().as_str().strip_prefix(prefix).is_none_or(str::is_empty);
    let keeper = lock::connect(settings, Terms { whole_names, ..Terms::default() }, |_| {}).await?;
    let guard = keeper.adopt(handle.clone())?;
    Ok((keeper, guard))
}

/// Limits the wait for an answer: a store that was reached and does not answer gets no more time
/// than a store that is not reached.
async fn answered<T>(settings: &Settings, future: impl Future<Output = T>) -> Result<T, Failure> {
    let limit = settings.connect_timeout;
    timeout(limit, future).await.map_err(|_| {
        let (store, limit, remedy) =
            (&settings.store.url, human(limit), "repeat the command before the lock expires");
        let message = format!("{store} did not answer within {limit}. Try: {remedy}");
        Failure::new(Exit::Unavailable, message)
    })
}

fn json(report: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(report)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    answer(&(line + "\n"))
}
