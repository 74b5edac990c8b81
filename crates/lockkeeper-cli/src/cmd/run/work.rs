//! The work under the lock: the command, the rest of the minimum hold, the release.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{ErrorKind, Keeper, LostReason};
use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout};

use super::again::Ran;
use super::{LEAVE, Run};
use crate::child::environment;
use crate::child::lease::Lease;
use crate::child::spawn::{Launch, Started};
use crate::child::supervise::{Ended, report_daemons, supervise};
use crate::duration::human;
use crate::exit::{Exit, Failure};
use crate::lock::Connection;
use crate::locks::{Holding, Losses};
use crate::runtime;

/// How long a store may take to acknowledge the release; without it the lock ends by its ttl.
const RELEASE: Duration = Duration::from_secs(3);

/// How holding on after the command's end went.
enum HeldOn {
    /// There was no reason to.
    No,
    /// The lock was held for long enough, or was lost after the command had ended.
    Yes {
        lost: bool,
    },
    Interrupted(Signal),
}

/// The outcome of the command under the lock.
enum Under {
    Ended(Ended),
    /// The lock was lost before the command began.
    Lost(LostReason),
    Interrupted(Signal),
}

impl Run<'_> {
    /// Runs the command and releases the lock. The lock is not released before the command is
    /// reaped.
    pub(super) async fn work(
        &mut self,
        connection: &Connection,
        holding: Holding,
    ) -> Result<Ran, Failure> {
        // A signal that came since the last look must not start a command only to end it.
        if let Some(signal) = self.signals.pending().await {
            return Ok(self.interrupted(holding, signal).await);
        }
        let since = Instant::now();
        let ended = match self.run_command(connection, &holding).await {
            Ok(Under::Ended(ended)) => ended,
            Ok(Under::Lost(reason)) => return Ok(self.lost_before(holding, &reason).await),
            Ok(Under::Interrupted(signal)) => return Ok(self.interrupted(holding, signal).await),
            Err(failure) => {
                self.release(holding, RELEASE, false).await;
                return Err(failure);
            }
        };
        let (lasted, had_terminal, in_order) =
            (since.elapsed(), ended.had_terminal, ended.in_order);
        let mark = (ended.lost && !self.policy.ignores_losses()).then(|| ended.mark.clone());
        let exit = self.let_go(connection, holding, ended).await;
        if let Some(mark) = mark {
            report_daemons(&mark, &self.reporter);
        }
        let was_pending = self.signals.pending().await.is_some();
        let was_asked =
            self.leaving.is_some() || was_pending || self.signals.explain(exit, had_terminal);
        Ok(Ran { exit, is_last: was_asked || in_order, lasted })
    }

    async fn interrupted(&mut self, holding: Holding, signal: Signal) -> Ran {
        self.leave(holding).await;
        Ran { exit: Exit::Signal(signal.as_raw()), is_last: true, lasted: Duration::ZERO }
    }

    /// Reports a lock that was lost before the command started.
    pub(super) async fn lost_before(&mut self, holding: Holding, reason: &LostReason) -> Ran {
        self.reporter.lost(holding.weakest(), reason, None);
        let kept = Some(holding.kept()).filter(|kept| !kept.is_zero());
        let kept =
            kept.map(|kept| format!("; the store may keep the lock for another {}", human(kept)));
        self.reporter.warn(&format!("the command was not started{}", kept.unwrap_or_default()));
        self.release(holding, LEAVE, true).await;
        Ran { exit: Exit::Lost, is_last: false, lasted: Duration::ZERO }
    }

    /// Releases the lock when its time has come. Returns how the end of the command, and all later
    /// events, count for `run`.
    async fn let_go(&mut self, connection: &Connection, holding: Holding, ended: Ended) -> Exit {
        match self.hold_on(&connection.keeper, &holding, &ended).await {
            HeldOn::No => {
                let limit = if ended.lost { LEAVE } else { RELEASE };
                let lost = self.release(holding, limit, ended.lost).await || ended.lost;
                if lost && !self.policy.ignores_losses() { Exit::Lost } else { ended.status.into() }
            }
            HeldOn::Yes { lost } => {
                self.release(holding, RELEASE, lost).await;
                ended.status.into()
            }
            HeldOn::Interrupted(signal) => {
                self.leave(holding).await;
                Exit::Signal(signal.as_raw())
            }
        }
    }

    async fn run_command(
        &mut self,
        connection: &Connection,
        holding: &Holding,
    ) -> Result<Under, Failure> {
        let stripped = if self.args.pass_credentials {
            Vec::new()
        } else {
            environment::stripped(|name| std::env::var_os(name))
        };
        let liveness =
            connection.liveness().map_err(|error| runtime::refused("no sign of life", &error))?;
        let mut set = environment::set(&holding.each(), self.around.lines());
        set.extend(environment::in_place_of(&stripped));
        set.extend(self.settings.handed_down.iter().cloned());
        let reporter = Arc::clone(&self.reporter);
        let launch = Launch {
            set: &set,
            stripped: &stripped,
            policy: self.policy,
            liveness,
            reporter,
            starts_nobody_else: true,
        };
        let running = match self.program.start(launch, holding, &mut self.signals).await? {
            Started::Yes(running) => running,
            Started::Lost(reason) => return Ok(Under::Lost(reason)),
            Started::Interrupted(signal) => return Ok(Under::Interrupted(signal)),
        };
        self.reporter.started(running.pid());
        let ended =
            supervise(*running, holding, &mut self.signals, self.policy, &self.reporter).await?;
        match &ended.refusal {
            Some(error) => Err(self.program.refused(error)),
            None => Ok(Under::Ended(ended)),
        }
    }

    /// Holds the lock for as long as `--min-hold` says, if the store does not keep it. A signal
    /// that asks the command to end, or a lost lock, ends the hold.
    async fn hold_on(&mut self, keeper: &Keeper, holding: &Holding, ended: &Ended) -> HeldOn {
        let left = self.args.min_hold.saturating_sub(holding.held());
        let is_kept = !self.task.kept_by_store(keeper).is_zero();
        if left.is_zero() || is_kept || ended.lost || self.signals.were_to_end() {
            return HeldOn::No;
        }
        // Only the store knows whether the lock was lost while the command still ran; the release
        // returns that.
        let resting = async {
            holding.is_held(keeper).await && {
                sleep(left).await;
                true
            }
        };
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => HeldOn::Interrupted(signal),
            never = self.orphans.reap() => match never {},
            reason = holding.lost() => {
                self.reporter.lost(holding.weakest(), &reason, None);
                HeldOn::Yes { lost: true }
            }
            has_rested = resting => if has_rested { HeldOn::Yes { lost: false } } else { HeldOn::No },
        }
    }

    /// Releases the lock because of a signal; the release has only a short time.
    pub(super) async fn leave(&mut self, holding: Holding) {
        self.leaving = Some(Instant::now());
        self.release(holding, LEAVE, true).await;
    }

    /// Releases the lock. `settled` says that the outcome of the run is already decided, so that
    /// failures are not reported. Returns whether the lock turns out to have been lost before.
    async fn release(&mut self, holding: Holding, limit: Duration, settled: bool) -> bool {
        let (held, kept, losses) = (holding.held(), holding.kept(), holding.losses());
        let released = tokio::select! {
            released = timeout(limit, holding.release()) => released,
            signal = self.signals.next_ending() => {
                self.leaving.get_or_insert_with(Instant::now);
                self.report_unreleased(&format!("interrupted by signal {}", signal.as_raw()), kept);
                return false;
            }
        };
        let why = match released {
            Ok(Ok(())) => return self.report_released(losses, held, settled).await,
            Ok(Err(error)) if error.kind() == ErrorKind::Lost => {
                return self.report_released(losses, held, settled).await;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store does not answer".to_owned(),
        };
        if !settled {
            self.report_unreleased(&why, kept);
        }
        false
    }

    /// Returns whether a lock was lost before, and that loss was not reported.
    async fn report_released(&self, losses: Losses, held: Duration, settled: bool) -> bool {
        let mut was_lost = false;
        for (name, loss) in losses.outcomes().await {
            match loss {
                None => self.reporter.released(&name, held),
                Some(_) if settled => {}
                Some(reason) => {
                    self.reporter.lost(&name, &reason, None);
                    was_lost = true;
                }
            }
        }
        was_lost
    }

    /// A waiter may wait for the rest of the lease and the lock-delay, or for the rest of the
    /// minimum hold.
    fn report_unreleased(&self, why: &str, kept: Duration) {
        let by_itself = human(kept.max(self.ttl() + self.args.lock_delay.unwrap_or_default()));
        for name in self.task.names {
            self.reporter.warn(&format!(
                "lock {name:?}: the release is not confirmed ({why}); the lock ends within {by_itself}"
            ));
        }
    }
}
