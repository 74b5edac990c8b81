//! A storm finds faults: contestants forge a grant now and then.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lockkeeper::{FencingToken, Result};
use lockkeeper_live::Redis;
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::processes::{TestProcess, checked, recorded};
use lockkeeper_testing::history::{Ask, Contestant, Held, Kind, Seed};

use crate::fenced::LostUpdateCounter;
use crate::play::{Round, Storm};
use crate::witness::violations;
use crate::{fenced, sentinel};

/// One grant in this number is a forgery.
const FORGED: u64 = 10;

/// Longer than a busy machine takes to start processes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const FORGERY: Storm = Storm {
    test: "findings::two_holders_are_seen_by_the_witness_and_by_the_history",
    tasks: 8,
    pause: Duration::from_millis(3),
    ttl: Duration::from_secs(5),
    lingers: Duration::from_secs(30),
    at_most: Duration::from_secs(3),
};

const UNFENCED: Storm =
    Storm { test: "findings::a_lost_increment_is_found_without_a_fence", ..FORGERY };

/// The witness needs no history, and the history needs no witness.
#[test]
fn two_holders_are_seen_by_the_witness_and_by_the_history() {
    if FORGERY.is_played_here(forging) {
        return;
    }
    let redis = Redis::start().unwrap();
    let seen = |round: &Round<'_>| !violations(round.folder()).is_empty();
    FORGERY.play(&redis.url(), &[], until(seen), |storm, folder, locks, seed| {
        let violations = violations(folder);
        assert!(
            !violations.is_empty() && violations[0].contains("with token 1 "),
            "{violations:?}"
        );
        let history = recorded(folder).unwrap();
        let found = locks.iter().filter_map(|lock| {
            catch_unwind(AssertUnwindSafe(|| checked(&history, &[*lock], storm.lingers, seed)))
                .err()
        });
        let found: Vec<_> = found.map(|panic| *panic.downcast::<String>().unwrap()).collect();
        assert!(
            !found.is_empty() && found.iter().all(|text| text.contains(&seed.to_string())),
            "{found:?}"
        );
    });
}

/// The same forgeries at a counter: without the fence increments are lost.
#[test]
fn a_lost_increment_is_found_without_a_fence() {
    if UNFENCED.is_played_here(|inner, process, lock| {
        fenced::counting(forging(inner, process, lock), process, lock, false)
    }) {
        return;
    }
    let (redis, data) = (Redis::start().unwrap(), Redis::start().unwrap());
    let judge = |_: &Storm, folder: &Path, locks: &[(&str, Kind)], seed: Seed| {
        let wrong: Vec<_> = locks
            .iter()
            .copied()
            .filter(|(lock, _)| LostUpdateCounter::of(folder, lock).has_lost())
            .collect();
        let found = catch_unwind(AssertUnwindSafe(|| sentinel::judge(&data, folder, &wrong, seed)));
        let found = *found.unwrap_err().downcast::<String>().unwrap();
        assert!(
            found.contains("increments, and the counter says") && found.contains(&seed.to_string()),
            "{found}"
        );
    };
    let lost = |round: &Round<'_>| {
        round.names().iter().any(|lock| LostUpdateCounter::of(round.folder(), lock).has_lost())
    };
    UNFENCED.play(&redis.url(), &[fenced::data_url(&data)], until(lost), judge);
}

/// No server fails. The storm goes on until a forgery has done harm: on a busy machine processes
/// take long to start.
fn until(seen: impl Fn(&Round<'_>) -> bool) -> impl FnMut(&mut Round<'_>, &mut Seeded) {
    move |round, _| {
        let began = Instant::now();
        while !round.remaining().is_zero() || !seen(round) {
            assert!(began.elapsed() < TIME_LIMIT, "no forgery has done harm");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A contestant that sometimes does not ask the store.
fn forging(inner: Arc<dyn Contestant>, _: &TestProcess, _: &str) -> Arc<dyn Contestant> {
    Arc::new(Forger(inner))
}

/// How often a contestant of this process was asked.
static ASKED: AtomicU64 = AtomicU64::new(1);

struct Forger(Arc<dyn Contestant>);

#[async_trait]
impl Contestant for Forger {
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>> {
        if ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(FORGED) {
            return Ok(Some(Box::new(Forged)));
        }
        self.0.acquire(ask).await
    }
}

/// A lock that no store granted.
struct Forged;

#[async_trait]
impl Held for Forged {
    fn token(&self) -> FencingToken {
        FencingToken::new(0, 1).unwrap()
    }

    fn believed(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    async fn release(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>) {
        panic!("a mutex is not shared")
    }

    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)> {
        panic!("a mutex is not shared")
    }
}
