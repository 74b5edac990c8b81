//! `lockkeeper list [PREFIX]`: the locks that are held or waited for.

use std::time::Duration;

use lockkeeper::{HolderInfo, LockInfo};

use super::inspect::{dash, json};
use crate::args::ListArgs;
use crate::exit::{Exit, Failure};
use crate::held::mode_word;
use crate::lock::{self, Terms};
use crate::output::{Verbosity, answer, complain, printable, titled_table};
use crate::settings::Settings;

/// Prints a table, or the objects of `inspect` as JSON Lines.
pub(crate) async fn list(args: &ListArgs, settings: &Settings) -> Result<Exit, Failure> {
    let keeper = lock::look(settings, Terms::default()).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    // One lock more than shown says whether there are more.
    let mut locks = keeper.admin()?.list(&args.starting_with, limit.saturating_add(1)).await?;
    let are_more = locks.len() > limit;
    locks.truncate(limit);
    answer(&if settings.json {
        locks.iter().map(json).collect::<Result<String, Failure>>()?
    } else {
        text(&locks)
    })?;
    for problem in locks.iter().filter_map(|lock| lock.problem.as_ref()) {
        if settings.verbosity >= Verbosity::Warnings {
            complain(&problem.to_string());
        }
    }
    if are_more && settings.verbosity >= Verbosity::Warnings {
        complain(&format!(
            "only the first {limit} are listed, there are more. Try: a higher --limit, or a PREFIX"
        ));
    }
    Ok(Exit::Ok)
}

fn text(locks: &[LockInfo]) -> String {
    let titles = ["NAME", "MODE", "HOLDERS", "WAITING", "OLDEST", "HELD", "OWNER"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(locks.iter().map(row));
    titled_table(&rows)
}

/// OLDEST is the longest wait, HELD the longest hold, and OWNER the holder with the longest hold.
fn row(info: &LockInfo) -> Vec<String> {
    let waited: Option<Duration> = info.waiters.iter().filter_map(|waiter| waiter.waited).max();
    let first = info.holders.iter().max_by_key(|holder| holder.held);
    vec![
        info.name.to_string(),
        info.mode
            .as_ref()
            .map_or(if info.problem.is_some() { "unreadable" } else { "-" }, mode_word)
            .to_owned(),
        info.holders.len().to_string(),
        info.waiters.len().to_string(),
        dash(waited),
        dash(first.and_then(|holder| holder.held)),
        first.map_or_else(|| "-".to_owned(), owner),
    ]
}

fn owner(holder: &HolderInfo) -> String {
    let owner = printable(&holder.owner);
    if holder.kept { format!("{owner} (kept)") } else { owner.into_owned() }
}
