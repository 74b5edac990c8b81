//! What can be seen of any store through a keeper: how long a lock takes, who holds how many, what it can do.

use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use crate::builder::{KeeperBuilder, Source};
use crate::duration::format_duration;
use crate::layer::Prefix;
use crate::store::median;
use crate::store::{Capabilities, Expiry, Store};
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{Keeper, LockInfo, Result};

const NAME: &str = "lockkeeper-doctor";
/// Often enough for a median, and soon over on a slow store.
const ROUNDS: usize = 20;
/// A lock that takes longer is felt by whoever uses it.
const SLOW: Duration = Duration::from_millis(100);
/// As many locks are looked at.
const LOCKS_MAX: usize = 1000;
/// So many that cannot be used are named.
const PROBLEMS_MAX: usize = 3;

pub(super) async fn examine(store: Arc<dyn Store>, url: &StoreUrl, within: Duration, findings: &mut Vec<Finding>) {
    let prefix = url.common.prefix.as_deref().unwrap_or_default();
    let clock = Clock::boot();
    let id = clock.timeout(within, identity(Arc::clone(&store), prefix)).await;
    let keeper = match KeeperBuilder::new(Source::Store(store)).prefix(prefix).connect().await {
        Ok(keeper) => keeper,
        Err(error) => return findings.push(Finding::failed("keeper", &error)),
    };
    let silent = |check| {
        let remedy = "repeat the command, and check the load of the store";
        Finding::fail(check, format!("the store did not answer within {}", format_duration(within)), remedy)
    };
    findings.push(id.unwrap_or_else(|| silent("id")));
    let round_trip = clock.timeout(within, round_trip(&keeper, within)).await;
    findings.push(round_trip.unwrap_or_else(|| silent("round trip")));
    let locks = clock.timeout(within, locks(&keeper)).await;
    findings.extend(locks.unwrap_or_else(|| vec![silent("locks")]));
    findings.push(capabilities(&keeper.capabilities()));
    // What could not be given back ends by itself.
    drop(keeper.shutdown(within).await);
}

/// The id of the store, and of what a keeper of this URL shows. Locks do without it.
async fn identity(store: Arc<dyn Store>, prefix: &str) -> Finding {
    let id = async {
        let whole = store.id().await?;
        let shown = Prefix::new(store, prefix)?.id().await?;
        Ok::<_, crate::Error>(match prefix {
            "" => whole.to_string(),
            prefix => format!("{whole}; {shown} with the prefix {prefix:?}"),
        })
    };
    match id.await {
        Ok(id) => Finding::ok("id", id),
        Err(error) => Finding::warn("id", error.message(), error.remedy().unwrap_or_default()),
    }
}

async fn round_trip(keeper: &Keeper, within: Duration) -> Finding {
    match rounds(keeper, within).await {
        Ok(took) if took > SLOW => {
            let finding = format!("a lock and its release take {took:.1?} (median of {ROUNDS})");
            Finding::warn("round trip", finding, "a nearer store, or a faster disk for the store")
        }
        Ok(took) => Finding::ok("round trip", format!("a lock and its release take {took:.1?} (median of {ROUNDS})")),
        Err(error) => Finding::failed("round trip", &error),
    }
}

async fn rounds(keeper: &Keeper, within: Duration) -> Result<Duration> {
    let (mutex, clock) = (keeper.mutex(NAME)?, Clock::boot());
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = clock.now();
        // Somebody else may be examining the same store.
        mutex.lock().wait(within).await?.release().await?;
        took.push(clock.now().saturating_since(start));
    }
    Ok(median(took))
}

async fn locks(keeper: &Keeper) -> Vec<Finding> {
    let Ok(admin) = keeper.admin() else { return vec![Finding::ok("locks", "this store does not list locks")] };
    let mut locks = match admin.list("", LOCKS_MAX).await {
        Ok(locks) => locks,
        Err(error) => return vec![Finding::failed("locks", &error)],
    };
    let problems: Vec<_> = locks.extract_if(.., |lock| lock.problem.is_some()).collect();
    let mut findings = vec![Finding::ok("locks", summary(&locks))];
    findings.extend(problems.iter().take(PROBLEMS_MAX).filter_map(problem));
    if let Some(more) = problems.len().checked_sub(PROBLEMS_MAX).filter(|more| *more > 0) {
        findings.push(Finding::warn("keys", format!("{more} more names that cannot be used"), "lockkeeper list"));
    }
    findings
}

/// What stands in the place of a lock keeps everybody from it, and nobody from another.
fn problem(lock: &LockInfo) -> Option<Finding> {
    let error = lock.problem.as_ref()?;
    let finding = format!("lock {:?}: {}", lock.name.as_str(), error.message());
    Some(Finding::warn("keys", finding, error.remedy().unwrap_or_default()))
}

fn summary(locks: &[LockInfo]) -> String {
    let more = if locks.len() == LOCKS_MAX { "+" } else { "" };
    let holders: usize = locks.iter().map(|lock| lock.holders.len()).sum();
    let waiters: usize = locks.iter().map(|lock| lock.waiters.len()).sum();
    let mut text = format!("{}{more} in use, {holders} held, {waiters} waiting", locks.len());
    let longest = locks.iter().max_by_key(|lock| lock.waiters.len()).filter(|lock| !lock.waiters.is_empty());
    if let Some(lock) = longest {
        text.push_str(&format!(
            "; the longest line is that of {:?}, {} waiting",
            lock.name.as_str(),
            lock.waiters.len()
        ));
    }
    let held = locks.iter().flat_map(|lock| lock.holders.iter().map(move |holder| (holder.held, lock, holder)));
    if let Some((Some(held), lock, holder)) = held.max_by_key(|(held, ..)| *held) {
        let (name, held) = (lock.name.as_str(), format_duration(Duration::from_secs(held.as_secs())));
        text.push_str(&format!("; the oldest hold is that of {name:?}, for {held}, by {}", holder.owner));
    }
    text
}

fn capabilities(can: &Capabilities) -> Finding {
    let expiry = match can.expiry {
        Expiry::PerClaim => "each lock has its own lease",
        Expiry::Session { .. } => "the locks of a session share a lease",
    };
    Finding::ok(
        "capabilities",
        format!(
            "admission {:?}, fencing {:?}, wake {:?}, {}; {expiry}; ttl {} to {}, lock-delay up to {}",
            can.admission,
            can.fencing,
            can.wake,
            if can.queue { "with a queue" } else { "without a queue" },
            format_duration(can.ttl_min),
            format_duration(can.ttl_max),
            format_duration(can.lock_delay_max),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_holds_how_many_is_summed_up() {
        let keeper = Keeper::memory();
        assert_eq!(locks(&keeper).await[0].finding, "0 in use, 0 held, 0 waiting");
        let _a = keeper.mutex("a").unwrap().lock().await.unwrap();
        let _b = keeper.mutex("b").unwrap().lock().await.unwrap();
        let mutex = keeper.mutex("b").unwrap();
        let (waiting, looked) = tokio::join!(mutex.lock().wait(Duration::from_secs(1)), async {
            // Polled after the attempt has taken its place.
            locks(&keeper).await.remove(0).finding
        });
        assert!(waiting.is_err());
        assert!(
            looked.starts_with("2 in use, 2 held, 1 waiting; the longest line is that of \"b\", 1 waiting"),
            "{looked}"
        );
        assert!(looked.contains("; the oldest hold is that of \""), "{looked}");
    }
}
