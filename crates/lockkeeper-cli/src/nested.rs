//! A lock that a run around this one holds. The outer run waits for this run, so a wait for the
//! outer run's lock would never end.
//!
//! The outer runs pass their sequencers on. The store knows the tokens in the sequencers. So
//! another store, another prefix, and a run that has ended meanwhile are recognised, whatever the
//! names and URLs look like.

use std::ffi::OsString;
use std::time::Duration;

use lockkeeper::{HolderInfo, Keeper, LockInfo, LockName, Sequencer};

use crate::args::{ModeArgs, Permits};
use crate::child::environment;
use crate::duration::Limit;
use crate::exit::Failure;
use crate::output::printable;

/// The locks of the runs around this one.
#[derive(Debug)]
pub(crate) struct Around {
    /// The sequencers as they were passed on.
    lines: Vec<String>,
}

impl Around {
    pub(crate) fn of_this_process() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(environment: impl Fn(&str) -> Option<OsString>) -> Self {
        Self { lines: environment::held_outside(environment) }
    }

    /// For the environment of a command, which is one level further in.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Refuses to wait for a lock that the runs around this one hold. `names` has the full names,
    /// and the names as typed.
    ///
    /// A store that does not answer refuses nothing: the wait itself reports the outage.
    ///
    /// # Errors
    /// 64, with the name as typed.
    pub(crate) async fn refuse(
        &self,
        keeper: &Keeper,
        names: &[(LockName, String)],
        mode: ModeArgs,
        wait: Option<Limit>,
    ) -> Result<(), Failure> {
        if wait == Some(Limit::For(Duration::ZERO)) {
            return Ok(());
        }
        let around: Vec<Sequencer> =
            self.lines.iter().filter_map(|line| line.parse().ok()).collect();
        for (name, typed) in names {
            // Sequencers have full names.
            let full = keeper.mutex(name)?.full_name();
            let around: Vec<_> = around.iter().filter(|held| *held.name() == full).collect();
            if around.is_empty() {
                continue;
            }
            let Ok(info) = keeper.inspect(name).await else { continue };
            let is_around = |holder: &&HolderInfo| {
                !holder.kept && around.iter().any(|held| Some(held.token()) == holder.token)
            };
            let around: Vec<_> = info.holders.iter().filter(is_around).collect();
            if let Some(why) = would_wait(&info, &around, mode, wait) {
                return Err(Failure::usage(format!(
                    "lock {typed:?}: the outer run holds the lock until this command ends, {why}. Try: the command \
                     without an inner run of {typed:?}, or -w 0"
                )));
            }
        }
        Ok(())
    }
}

/// Why such a wait would last for as long as these holders hold the lock, if it would: they exclude
/// the claim themselves, or they exclude a waiter before the claim in the queue. A limited wait
/// behind a waiter ends by itself. The store refuses kinds that do not go together.
fn would_wait(
    info: &LockInfo,
    around: &[&HolderInfo],
    mode: ModeArgs,
    wait: Option<Limit>,
) -> Option<String> {
    let (weight, capacity) = match mode {
        ModeArgs { permits: Some(Permits { count, of }), .. } => (count, Some(of)),
        ModeArgs { shared: true, .. } => (1, None),
        ModeArgs { shared: false, permits: None } => (u32::MAX, None),
    };
    if keep_out(around, weight, capacity) {
        return Some("so this wait would never end".to_owned());
    }
    if let Some(Limit::For(_)) = wait {
        return None;
    }
    let ahead =
        info.waiters.iter().find(|waiter| keep_out(around, waiter.weight, waiter.capacity))?;
    Some(format!(
        "{} waits for that, and this wait would be behind that waiter",
        printable(&ahead.owner)
    ))
}

/// Returns whether these holders alone exclude a claim of this weight and capacity. Other holders
/// leave sooner or later, and their capacities leave with them.
fn keep_out(around: &[&HolderInfo], weight: u32, capacity: Option<u32>) -> bool {
    let most = match (capacity, around.iter().filter_map(|holder| holder.capacity).min()) {
        _ if around.is_empty() => return false,
        (Some(of), Some(smallest)) => of.min(smallest),
        (None, None) => u32::MAX,
        _ => return false,
    };
    around.iter().map(|holder| u64::from(holder.weight)).sum::<u64>() + u64::from(weight)
        > u64::from(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_down_is_what_all_runs_around_hold() {
        let around = Around::of(|name| match name {
            "LOCKKEEPER_SEQUENCERS" => Some("lk1.x.7.a\nlk1.x.8.b%2Fc".into()),
            "LOCKKEEPER_OUTER_SEQUENCERS" => Some("lk1.x.5.x\nlk1.x.7.a".into()),
            _ => None,
        });
        assert_eq!(around.lines(), ["lk1.x.5.x", "lk1.x.7.a", "lk1.x.8.b%2Fc"]);
        assert!(Around::of(|_| None).lines().is_empty());
    }
}
