//! One round under the lock, or several: the round, and what comes after it.

use std::time::Duration;

use lockkeeper::Keeper;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::{Run, Waited};
use crate::child::restart::Restart;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Connection};
use crate::locks::Locks;
use crate::random;

/// How far a round came.
enum Round {
    Ran(Ran),
    /// A signal ended the wait; there is no further round.
    Stopped(Exit),
}

/// The end of a command under its lock.
pub(super) struct Ran {
    pub(super) exit: Exit,
    /// A user asked for the end, or the command ended in order and left processes in the
    /// background: another round would run beside them.
    pub(super) is_last: bool,
    /// How long the command ran.
    pub(super) lasted: Duration,
}

impl Run<'_> {
    /// Runs the command under the lock, until no further round is due.
    pub(super) async fn until_done(&mut self, connection: &Connection) -> Result<Exit, Failure> {
        let locks =
            Locks::of(&connection.keeper, self.task.names, self.task.wanted, &self.settings.owner)?;
        self.reporter.know(locks.names().to_vec());
        if let Some(signal) = self.refuse_own(&connection.keeper, &locks).await? {
            return Ok(Exit::Signal(signal.as_raw()));
        }
        let mut is_first = true;
        loop {
            self.signals.forget();
            let (exit, lasted, why) = match self.round(connection, &locks).await {
                Ok(Round::Stopped(exit)) => return Ok(exit),
                Ok(Round::Ran(ran)) if ran.is_last || !self.task.restart.follows(ran.exit) => {
                    return Ok(ran.exit);
                }
                Ok(Round::Ran(ran)) => (ran.exit, ran.lasted, why(ran.exit)),
                // A failure at the start may be permanent. A later failure may pass, like an outage
                // of a store or a deployment that replaces the command, and a candidate that went
                // away could not lead afterwards.
                Err(failure) if is_first || self.task.restart == Restart::Never => {
                    return Err(failure);
                }
                Err(failure) => (failure.exit, Duration::ZERO, failure.message),
            };
            is_first = false;
            let pause = self.backoff.pause(lasted, random::number()?);
            self.reporter.restarting(exit, pause, &why);
            if let Some(signal) = self.rest(pause).await {
                return Ok(Exit::Signal(signal.as_raw()));
            }
        }
    }

    /// Fails if the runs around this one keep it from its locks. Returns the first signal.
    async fn refuse_own(
        &mut self,
        keeper: &Keeper,
        locks: &Locks,
    ) -> Result<Option<Signal>, Failure> {
        let refused = self.around.refuse(keeper, locks.names(), self.task.mode(), self.task.wait);
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => Ok(Some(signal)),
            refused = refused => refused.map(|()| None),
        }
    }

    async fn round(&mut self, connection: &Connection, locks: &Locks) -> Result<Round, Failure> {
        let keeper = &connection.keeper;
        let began = Instant::now();
        Ok(match self.acquire(keeper, locks, began).await? {
            Waited::Interrupted(signal) => Round::Stopped(Exit::Signal(signal.as_raw())),
            Waited::Busy(name) => {
                self.reporter.away().refuse_timeout(&name, began.elapsed())?;
                let line = lock::line(keeper, &name).await;
                let code = self.task.conflict_exit_code();
                self.reporter.busy(
                    &name,
                    self.task.wait,
                    began.elapsed(),
                    line.as_ref(),
                    code == 0,
                );
                Round::Stopped(Exit::Busy(code))
            }
            Waited::Lost(holding, reason) => Round::Ran(self.lost_before(*holding, &reason).await),
            Waited::Acquired(holding) => {
                self.reporter.acquired(&holding.each(), began.elapsed(), self.ttl());
                Round::Ran(self.work(connection, *holding).await?)
            }
        })
    }

    /// Waits for the next campaign. The signal that came instead.
    async fn rest(&mut self, pause: Duration) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => Some(signal),
            () = sleep(pause) => None,
            never = self.orphans.reap() => match never {},
        }
    }
}

fn why(exit: Exit) -> String {
    match exit {
        Exit::Lost => "the leadership was lost".to_owned(),
        Exit::Signal(signal) => format!("the command was ended by signal {signal}"),
        exit => format!("the command ended with exit code {}", exit.code()),
    }
}
