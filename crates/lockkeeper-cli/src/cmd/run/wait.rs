//! From the first request to a lock that is held for long enough to start a command.

use std::pin::pin;
use std::time::Duration;

use lockkeeper::{Error, ErrorKind, Keeper, LostReason};
use tokio::time::{Instant, sleep, timeout};

use super::{LEAVE, Run, Waited};
use crate::child::lease::Lease;
use crate::duration::{Limit, human};
use crate::exit::{Exit, Failure};
use crate::lock;
use crate::locks::{Attempt, Holding, Locks};
use crate::waiting::WaitReporter;

/// How often `run` looks at a granted lock until the first renewal is acknowledged.
const FIRM_LOOK: Duration = Duration::from_millis(5);

impl Run<'_> {
    /// Waits in the queue until the lock is held for long enough to end a command. If the lock is
    /// lost before, the run waits again, unless the store keeps the lock.
    pub(super) async fn acquire(
        &mut self,
        keeper: &Keeper,
        locks: &Locks,
        began: Instant,
    ) -> Result<Waited, Failure> {
        let lead = self.policy.lead();
        loop {
            let waited = self.wait_in_line(keeper, locks, began).await?;
            let Waited::Acquired(holding) = waited else { return Ok(waited) };
            tokio::select! {
                biased;
                signal = self.signals.next_ending() => {
                    self.leave(*holding).await;
                    return Ok(Waited::Interrupted(signal));
                }
                firm = firm(&holding, lead) => match firm {
                    Firm::Yes => return Ok(Waited::Acquired(holding)),
                    // Another wait would be for the claim that the store keeps for this run. After
                    // a break the store keeps nothing.
                    Firm::Lost(reason) if !holding.kept().is_zero() && !is_broken(&reason) => {
                        return Ok(Waited::Lost(holding, reason));
                    }
                    // The client that requested the lock has got it.
                    Firm::Lost(_) => self.reporter.forget_requests(),
                    Firm::Over(max_hold) => {
                        drop(timeout(LEAVE, holding.release()).await);
                        return Err(over(max_hold));
                    }
                }
            }
        }
    }

    async fn wait_in_line(
        &mut self,
        keeper: &Keeper,
        locks: &Locks,
        began: Instant,
    ) -> Result<Waited, Failure> {
        let attempt = Attempt {
            wait: self.wait_limit().map(|limit| limit.saturating_sub(began.elapsed())),
            reason: self.args.reason.as_deref(),
            unfair: self.args.unfair,
            max_hold: self.args.max_hold,
            min_hold: self.task.kept_by_store(keeper),
            lead: self.policy.lead(),
        };
        let mut acquiring = pin!(locks.acquire(attempt));
        let (owner, first) = (self.settings.owner.as_str(), locks.names()[0].1.as_str());
        let manner = self.task.manner();
        let wait_reporter =
            WaitReporter::new(keeper, &self.reporter, &mut self.positions, owner, first, manner);
        let mut wait_reporter = wait_reporter.since(began);
        let waited = tokio::select! {
            biased;
            signal = self.signals.next_ending() => Ok(Waited::Interrupted(signal)),
            result = &mut acquiring => match result {
                Ok(holding) => Ok(Waited::Acquired(Box::new(holding))),
                Err(error) => match error.kind() {
                    ErrorKind::Timeout => Ok(Waited::Busy(busy(locks, &error))),
                    _ => Err(lock::refused(error, self.task.holds_too_long(keeper))),
                },
            },
            never = wait_reporter.run() => match never {},
            never = self.orphans.reap() => match never {},
        };
        wait_reporter.finish();
        waited
    }

    fn wait_limit(&self) -> Option<Duration> {
        match self.task.wait {
            Some(Limit::For(limit)) => Some(limit),
            Some(Limit::Forever) | None => None,
        }
    }
}

fn is_broken(reason: &LostReason) -> bool {
    matches!(reason, LostReason::Broken { .. } | LostReason::Removed { .. })
}

/// The locks that other claims hold, as typed.
fn busy(locks: &Locks, error: &Error) -> String {
    let first = || locks.names()[0].1.clone();
    error.name().map_or_else(first, |name| locks.typed(name).to_owned())
}

/// The outcome for a lock whose grant was pushed.
enum Firm {
    Yes,
    Lost(LostReason),
    /// The lock was held for as long as `--max-hold` says before the command could start.
    Over(Duration),
}

/// Waits until more than `lead` remains: a pushed grant starts no lease of its own, and its first
/// renewal does.
async fn firm(holding: &Holding, lead: Duration) -> Firm {
    while holding.remaining() <= lead {
        if let Some(max_hold) = holding.max_hold().filter(|max_hold| holding.held() >= *max_hold) {
            return Firm::Over(max_hold);
        }
        if let Some(reason) = holding.loss() {
            return Firm::Lost(reason);
        }
        sleep(FIRM_LOOK).await;
    }
    Firm::Yes
}

fn over(max_hold: Duration) -> Failure {
    let max_hold = human(max_hold);
    let message = format!(
        "--max-hold {max_hold} was over before the store confirmed the lock. Try: a longer --max-hold"
    );
    Failure::new(Exit::Lost, message)
}
