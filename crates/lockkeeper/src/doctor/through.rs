//! The checks of any store through a keeper: how long a lock takes, how many holders there are, and
//! the capabilities of the store.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::kit::{Check, Examination, checks, ok, warn, warn_if};

use super::Finding;
use crate::builder::{KeeperBuilder, Source};
use crate::duration::format_duration;
use crate::layer::Prefix;
use crate::store::{Admission, Capabilities, Expiry, Fencing, Store, Wakes, median};
use crate::time::Clock;
use crate::url::StoreUrl;
use crate::{Keeper, LockInfo, Result};

const NAME: &str = "lockkeeper-doctor";
const PERMITS: &str = "lockkeeper-doctor-permits";
const TOKENS: &str = "lockkeeper-doctor-tokens";
/// The number of rounds: enough for a median, and few enough for a slow store.
const ROUNDS: usize = 20;
/// A lock that takes longer is noticed by its users.
const SLOW: Duration = Duration::from_millis(100);
/// At most this number of locks is examined.
const LOCKS_MAX: usize = 1000;
/// In seconds.
const DAY: u64 = 24 * 3600;
/// At most this number of unusable locks is named.
const PROBLEMS_MAX: usize = 3;

static CHECKS: [Check<Seen>; 4] = checks! {
    ("id", |seen| seen.id(), |id| Some(named(id))),
    ("round trip", |seen| seen.round_trip(), |took| {
        let finding = format!("a lock and its release take {took:.1?} (median of {ROUNDS})");
        Some(warn_if(took > SLOW, finding, "a nearer store, or a faster disk for the store"))
    }),
    ("locks", |seen| seen.locks(), locks),
    ("capabilities", |seen| ready(Ok(seen.keeper.capabilities())), |can| Some(capabilities(&can))),
};

pub(super) async fn examine(
    store: Arc<dyn Store>,
    url: &StoreUrl,
    within: Duration,
) -> Vec<Finding> {
    let mut examination = Examination::new("the store", within);
    let prefix = url.common.prefix.clone().unwrap_or_default();
    let keeper = KeeperBuilder::new(Source::Store(Arc::clone(&store))).prefix(&*prefix);
    let keeper = match url.common.ttl {
        Some(ttl) => keeper.ttl(ttl),
        None => keeper,
    };
    let keeper = keeper.epoch(url.common.epoch.unwrap_or_default()).connect().await;
    if let Some(keeper) = examination.known("keeper", keeper) {
        let seen = Seen { store, keeper, prefix, within };
        examination.run(&CHECKS, &seen).await;
        // A lock that was not released expires.
        drop(seen.keeper.shutdown(examination.within_at_the_end()).await);
    }
    examination.findings
}

/// A store, and a keeper on it.
struct Seen {
    store: Arc<dyn Store>,
    keeper: Keeper,
    prefix: String,
    within: Duration,
}

impl Seen {
    /// The id of the store, and the id behind the prefix of the URL.
    async fn id(&self) -> Result<Result<String>> {
        let id = async {
            let whole = self.store.id().await?;
            let shown = Prefix::new(Arc::clone(&self.store), &self.prefix)?.id().await?;
            Ok(match self.prefix.as_str() {
                "" => whole.to_string(),
                prefix => format!("{whole}; {shown} with the prefix {prefix:?}"),
            })
        };
        Ok(id.await)
    }

    async fn round_trip(&self) -> Result<Duration> {
        let clock = Clock::boot();
        let can = self.keeper.capabilities();
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = clock.now();
            // A counter of tokens or of permits stays, which is no lock of another layout.
            let acquire = match can.admission {
                Admission::Permits => self.keeper.semaphore(PERMITS, 1)?.acquire(),
                _ if !can.epochs => self.keeper.mutex(TOKENS)?.lock(),
                _ => self.keeper.mutex(NAME)?.lock(),
            };
            // Another client may be examining the same store.
            acquire.wait(self.within).await?.release().await?;
            took.push(clock.now().saturating_since(start));
        }
        Ok(median(took))
    }

    /// The locks; `None` for a store that does not list locks.
    async fn locks(&self) -> Result<Option<Vec<LockInfo>>> {
        let Ok(admin) = self.keeper.admin() else { return Ok(None) };
        admin.list("", LOCKS_MAX).await.map(Some)
    }
}

/// A store without an id is a warning, since locks work without it.
fn named(id: Result<String>) -> Finding {
    id.map_or_else(|error| warn(error.message(), error.remedy().unwrap_or_default()), ok)
}

fn locks(locks: Option<Vec<LockInfo>>) -> Vec<Finding> {
    let Some(mut locks) = locks else { return vec![ok("this store does not list locks")] };
    let problems: Vec<_> = locks.extract_if(.., |lock| lock.problem.is_some()).collect();
    let mut findings = vec![ok(summary(&locks))];
    findings.extend(problems.iter().take(PROBLEMS_MAX).filter_map(problem));
    if let Some(more) = problems.len().checked_sub(PROBLEMS_MAX).filter(|more| *more > 0) {
        findings.push(Finding::warn(
            "keys",
            format!("{more} more names that cannot be used"),
            "lockkeeper list",
        ));
    }
    findings
}

/// An entry in the place of a lock keeps all clients from this lock, and from no other lock.
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
    let longest =
        locks.iter().max_by_key(|lock| lock.waiters.len()).filter(|lock| !lock.waiters.is_empty());
    if let Some(lock) = longest {
        text.push_str(&format!(
            "; the longest line is that of {:?}, {} waiting",
            lock.name.as_str(),
            lock.waiters.len()
        ));
    }
    let held = locks
        .iter()
        .flat_map(|lock| lock.holders.iter().map(move |holder| (holder.held, lock, holder)));
    if let Some((Some(held), lock, holder)) = held.max_by_key(|(held, ..)| *held) {
        let (name, held) =
            (lock.name.as_str(), format_duration(Duration::from_secs(held.as_secs())));
        text.push_str(&format!(
            "; the oldest hold is that of {name:?}, for {held}, by {}",
            holder.owner
        ));
    }
    text
}

fn capabilities(can: &Capabilities) -> Finding {
    let kinds = match can.admission {
        Admission::Weighted => "all kinds of locks",
        Admission::ReadWrite => "all kinds of locks but semaphores",
        Admission::Permits => "semaphores, but no mutexes, no read-write locks and no elections",
        Admission::Exclusive => "mutexes and elections, but no read-write locks and no semaphores",
    };
    let tokens = match can.fencing {
        Fencing::Durable => "fencing tokens rise as long as the store keeps its data",
        Fencing::UntilFailover => {
            "fencing tokens rise, unless data are lost and the server's clock is behind"
        }
        Fencing::None => "only the clients of lockkeeper take fencing tokens",
    };
    let order = if can.queue { "in a queue" } else { "in no order" };
    let wake = match can.wake {
        Wakes::Push => "are woken by the store",
        Wakes::Poll => "ask the store from time to time",
    };
    let expiry = match can.expiry {
        Expiry::PerClaim => "each lock has its own lease",
        Expiry::Session { .. } => "the locks of a client share its lease",
    };
    ok(format!(
        "{kinds}; {tokens}; waiters stand {order} and {wake}; {expiry}; a ttl may be {} to {}, and a lock-delay up to {}",
        in_days(can.ttl_min),
        in_days(can.ttl_max),
        in_days(can.lock_delay_max),
    ))
}

/// A long duration in days.
fn in_days(d: Duration) -> String {
    match d.as_secs() / DAY {
        days if days > 1 && d == Duration::from_secs(days * DAY) => format!("{days} days"),
        _ => format_duration(d),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::doctor::Level;
    use crate::testing::{Op, TestStore};

    #[tokio::test]
    async fn a_store_that_denies_each_request_is_not_waited_for() {
        let (store, within) = (TestStore::new(), Duration::from_secs(3600));
        for op in [Op::Claim, Op::Renew, Op::Withdraw, Op::Close] {
            (0..2000).for_each(|_| store.fail_next(op, ErrorKind::Denied));
        }
        let url = "memory:".parse().unwrap();
        let examined = examine(Arc::new(store), &url, within);
        let findings =
            Clock::boot().timeout(Duration::from_secs(20), examined).await.expect("it waits");
        assert!(
            findings.iter().any(|found| found.check == "round trip" && found.level == Level::Fail),
            "{findings:?}"
        );
    }

    #[test]
    fn what_a_store_can_do_is_said_in_words() {
        let says = |can: &Capabilities| capabilities(can).finding;
        let full = Capabilities::full();
        assert_eq!(
            says(&full),
            "all kinds of locks; fencing tokens rise as long as the store keeps its data; waiters stand in a queue and are \
             woken by the store; each lock has its own lease; a ttl may be 100ms to 365 days, and a lock-delay up to 24h"
        );
        let weak = Capabilities {
            admission: Admission::Exclusive,
            fencing: Fencing::None,
            wake: Wakes::Poll,
            queue: false,
            expiry: Expiry::Session { proof_lag: 0 },
            ttl_min: Duration::from_secs(2),
            ..full
        };
        assert_eq!(
            says(&weak),
            "mutexes and elections, but no read-write locks and no semaphores; only the clients of lockkeeper take fencing \
             tokens; waiters stand in no order and ask the store from time to time; the locks of a client share its lease; \
             a ttl may be 2s to 365 days, and a lock-delay up to 24h"
        );
    }

    async fn looked(keeper: &Keeper) -> String {
        summary(&keeper.admin().unwrap().list("", LOCKS_MAX).await.unwrap())
    }

    #[tokio::test]
    async fn who_holds_how_many_is_summed_up() {
        let keeper = Keeper::memory();
        assert_eq!(looked(&keeper).await, "0 in use, 0 held, 0 waiting");
        let _a = keeper.mutex("a").unwrap().lock().await.unwrap();
        let _b = keeper.mutex("b").unwrap().lock().await.unwrap();
        let mutex = keeper.mutex("b").unwrap();
        let (waiting, looked) = tokio::join!(mutex.lock().wait(Duration::from_secs(1)), async {
            // This future is polled after the attempt has taken its place.
            looked(&keeper).await
        });
        assert!(waiting.is_err());
        assert!(
            looked.starts_with(
                "2 in use, 2 held, 1 waiting; the longest line is that of \"b\", 1 waiting"
            ),
            "{looked}"
        );
        assert!(looked.contains("; the oldest hold is that of \""), "{looked}");
    }
}
