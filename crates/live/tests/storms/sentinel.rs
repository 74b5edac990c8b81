//! Sentinels that elect another master every few seconds. Redis replicates later than it answers,
//! so a new master may grant a held lock. The data behind a fence stay right all the same.

use std::path::Path;
use std::time::{Duration, Instant};

use lockkeeper_live::{Redis, Sentinel};
use lockkeeper_testing::Seeded;
use lockkeeper_testing::history::{Kind, Seed};

use crate::fenced;
use crate::play::{Round, Storm};
use crate::witness::violations;

const STORM: Storm = Storm {
    test: "sentinel::masters_change_and_the_fence_holds",
    tasks: 8,
    pause: Duration::from_millis(3),
    ttl: Duration::from_secs(5),
    lingers: Duration::from_secs(30),
    at_most: Duration::MAX,
};

/// How often the Sentinels choose another master.
const FAILOVER: Duration = Duration::from_secs(3);

/// A counter behind a fence loses no increment, even with two holders at once, and the tokens that
/// it has seen rise.
#[test]
fn masters_change_and_the_fence_holds() {
    if STORM.is_played_here(fenced::dress) {
        return;
    }
    let sentinel = Sentinel::start().unwrap();
    let data = Redis::start().unwrap();
    let (mut failovers, mut next) = (0, Instant::now());
    let fault = |round: &mut Round<'_>, _: &mut Seeded| {
        std::thread::sleep((next.saturating_duration_since(Instant::now())).min(round.remaining()));
        if round.remaining() > Duration::from_secs(1) {
            sentinel.wait_until_settled().unwrap();
            sentinel.fail_over().unwrap();
            (failovers, next) = (failovers + 1, Instant::now() + FAILOVER);
        }
    };
    STORM.play(&sentinel.url(), &[fenced::data_url(&data)], fault, |_, folder, locks, seed| {
        judge(&data, folder, locks, seed)
    });
    eprintln!("{failovers} other masters");
}

/// No increment is lost, and the tokens rise.
pub(crate) fn judge(data: &Redis, folder: &Path, locks: &[(&str, Kind)], seed: Seed) {
    let (mut written, mut refused) = (0, 0);
    for (lock, _) in locks {
        let lost_updates = fenced::LostUpdateCounter::of(folder, lock);
        let counter: u64 =
            data.query::<Option<u64>>(&["GET", &fenced::key(lock)]).unwrap().unwrap_or(0);
        lost_updates.check(counter).unwrap_or_else(|problem| panic!("{lock}: {problem}. {seed}"));
        written += lost_updates.written();
        refused += lost_updates.refused;
    }
    let violations = violations(folder).len();
    eprintln!(
        "{written} increments, {refused} refused; the witness saw {violations} times two holders"
    );
    assert!(written > 10, "only {written} increments. {seed}");
}
