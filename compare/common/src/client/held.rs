//! Locks that are held and renewed during another measurement.

use std::fs;
use std::sync::Arc;

use crate::order::Hold;
use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::tasks::{Client, Lock};

/// How many locks are taken at once.
const AT_ONCE: usize = 64;

/// A lock with the guard of its hold.
pub(super) struct Held<L: Lock>(L, L::Guard);

/// Takes the locks. The answer is the memory of this process before and after, in bytes.
pub(super) async fn take<C: Client>(
    client: &Arc<C>,
    held: &mut Vec<Held<C::Lock>>,
    hold: &Hold,
) -> Result<String> {
    let before = resident()?;
    held.reserve(hold.count);
    let mut tasks = JoinSet::new();
    for number in 0..hold.count {
        let name = if C::IS_SHARED { hold.lock.clone() } else { format!("{}-{number}", hold.lock) };
        let lock = client.lock(&name, if C::IS_SHARED { number } else { 0 }).await?;
        tasks.spawn(async move {
            let guard = lock.acquire().await?;
            anyhow::Ok(Held(lock, guard))
        });
        if tasks.len() == AT_ONCE {
            held.extend(tasks.join_next().await.transpose()?.transpose()?);
        }
    }
    while let Some(outcome) = tasks.join_next().await {
        held.push(outcome??);
    }
    Ok(format!("done before={before} after={}", resident()?))
}

/// Releases the locks. The answer is the number of locks that were lost before.
pub(super) async fn give_back<L: Lock>(held: &mut Vec<Held<L>>) -> Result<String> {
    let (lost, good): (Vec<_>, Vec<_>) =
        held.drain(..).partition(|Held(lock, guard)| lock.is_lost(guard));
    let mut tasks = JoinSet::new();
    for Held(lock, guard) in good {
        tasks.spawn(async move { lock.release(guard, true).await });
        if tasks.len() == AT_ONCE {
            tasks.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(format!("done lost={}", lost.len()))
}

/// The resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("/proc/self/status has no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
