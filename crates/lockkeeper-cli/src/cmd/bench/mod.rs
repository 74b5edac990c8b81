//! `lockkeeper bench`: how fast this store gives locks to the tasks of one process.

mod counted;
mod report;
mod task;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Keeper;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::counted::{Counted, Counts};
use self::report::Report;
use self::task::{LetGo, Measured, Task};
use crate::args::BenchArgs;
use crate::child::signals::Signals;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::answer;
use crate::random;
use crate::settings::Settings;

/// How long the last releases may take.
const DRAIN: Duration = Duration::from_secs(5);

/// Measures, and prints the results.
pub(crate) async fn bench(args: &BenchArgs, settings: &Settings) -> Result<Exit, Failure> {
    let mut signals = Signals::catch_only(&[Signal::INT, Signal::TERM]).map_err(|error| {
        Failure::new(Exit::Internal, format!("signals cannot be caught: {error}"))
    })?;
    let counts = Arc::new(Counts::default());
    let connecting = lock::open_with(settings, Terms::default(), |builder| {
        let counts = Arc::clone(&counts);
        builder.layer(move |store| Counted::new(store, counts))
    });
    let keeper = tokio::select! {
        signal = signals.next() => return Ok(Exit::Signal(signal.as_raw())),
        connection = connecting => connection?.keeper,
    };
    let ended = measure(args, &keeper, &counts, &mut signals).await;
    // The session is closed, however the measurement ended.
    let closed = keeper.shutdown(DRAIN).await;
    let report = ended?;
    closed?;
    answer(&if settings.json { report.json()? } else { report.text() })?;
    Ok(Exit::Ok)
}

async fn measure(
    args: &BenchArgs,
    keeper: &Keeper,
    counts: &Counts,
    signals: &mut Signals,
) -> Result<Report, Failure> {
    let names = names(args.names)?;
    warm_up(keeper, &names[0]).await?;
    let (stop, stopping) = watch::channel(false);
    let let_go: Vec<_> = names.iter().map(|_| Arc::new(LetGo::default())).collect();
    let before = counts.now();
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..args.tasks as usize {
        let which = number % names.len();
        let (lock, let_go) = (keeper.mutex(names[which].as_str())?, Arc::clone(&let_go[which]));
        tasks.spawn(Task { number, lock, let_go, hold: args.hold }.run(stopping.clone()));
    }
    let mut measured = Measured::of(args.tasks as usize);
    let interrupted = tokio::select! {
        biased;
        _ = signals.next() => true,
        () = sleep(args.seconds) => false,
        // A task ends before the stop only by an error.
        early = tasks.join_next() => {
            if let Some(early) = early {
                measured.add(early.map_err(broken)??);
            }
            false
        }
    };
    let (took, calls) = (began.elapsed(), counts.now().since(before));
    stop.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        measured.add(ended.map_err(broken)??);
    }
    Ok(Report::new(args, &measured, calls, took, interrupted))
}

/// Names that no other client uses.
fn names(count: u32) -> Result<Vec<String>, Failure> {
    let run = random::number()?;
    Ok((0..count).map(|number| format!("lockkeeper-bench/{run:016x}/{number}")).collect())
}

/// Opens the session; its opening is not measured.
async fn warm_up(keeper: &Keeper, name: &str) -> Result<(), Failure> {
    keeper.mutex(name)?.lock().await?.release().await?;
    Ok(())
}

fn broken(error: tokio::task::JoinError) -> Failure {
    Failure::new(Exit::Internal, format!("a task of the measurement ended: {error}"))
}
