//! A lock that a run around this one holds: that run waits for us, so that a wait of ours for its lock would never end.
//!
//! The runs around hand down their sequencers. The store knows the tokens in them, so that another store, another
//! prefix, and a run that has ended meanwhile are told apart, whatever the names and URLs look like.

use std::ffi::OsString;
use std::time::Duration;

use lockkeeper::{HolderInfo, Keeper, LockInfo, LockName, Sequencer};

use crate::args::{ModeArgs, Permits};
use crate::child::environment;
use crate::duration::Limit;
use crate::exit::Failure;
use crate::output::printable;

/// What the runs around this one hold.
#[derive(Debug)]
pub(crate) struct Around {
    /// As they were handed down.
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

    /// Refuses to wait for a lock that the runs around this one hold. `names` are names and what was typed.
    ///
    /// A store that does not answer refuses nothing: the wait itself will tell.
    ///
    /// # Errors
    /// 64, with the name as it was typed.
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
        let around: Vec<Sequencer> = self.lines.iter().filter_map(|line| line.parse().ok()).collect();
        for (name, typed) in names {
            // Sequencers have full names.
            let full = keeper.mutex(name)?.full_name();
            let around: Vec<_> = around.iter().filter(|held| *held.name() == full).collect();
            if around.is_empty() {
                continue;
            }
            let Ok(info) = keeper.inspect(name).await else { continue };
            let is_around =
                |holder: &&HolderInfo| !holder.kept && around.iter().any(|held| Some(held.token()) == holder.token);
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

/// Why such a wait would last for as long as these holders hold the lock, if it would: they keep it out themselves, or they
/// keep out a waiter that is in the queue before it. A limited wait behind a waiter ends by itself. Kinds that do not go
/// together are the store's to refuse.
fn would_wait(info: &LockInfo, around: &[&HolderInfo], mode: ModeArgs, wait: Option<Limit>) -> Option<String> {
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
    let ahead = info.waiters.iter().find(|waiter| keep_out(around, waiter.weight, waiter.capacity))?;
    Some(format!("{} waits for that, and this wait would be behind that waiter", printable(&ahead.owner)))
}

/// Whether these holders alone keep out a claim of this weight and capacity. Other holders leave sooner or later, and the
/// capacities that they name leave with them.
fn keep_out(around: &[&HolderInfo], weight: u32, capacity: Option<u32>) -> bool {
    let most = match (capacity, around.iter().filter_map(|holder| holder.capacity).min()) {
        _ if around.is_empty() => return false,
        (Some(of), Some(smallest)) => of.min(smallest),
        (None, None) => u32::MAX,
        _ => return false,
    };
    around.iter().map(|holder| u64::from(holder.weight)).sum::<u64>() + u64::from(weight) > u64::from(most)
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
