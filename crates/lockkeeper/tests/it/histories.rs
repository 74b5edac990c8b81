//! Histories of random operations: the histories of the library pass the checker, and the histories
//! of wrong stores and engines do not.

use std::sync::Arc;

use lockkeeper::store::Store;
use lockkeeper_testing::history::{History, Kind, Plan, Seed, Summary};
use lockkeeper_testing::wrong::{self, Habit, Mutant, Mutated, SmallEngine};
use lockkeeper_testing::{Case, Harness, MemoryHarness, TestClient, Ttls, run};

use crate::wrong_stores::Unmutated;

/// A store without a mutant, whose histories run on virtual time.
type Memory = Mutated<MemoryHarness, Unmutated>;

fn ttls() -> Ttls {
    Ttls::quick().without_delay()
}

/// Runs the plan with a few new seeds, and panics with the first violation and the line that
/// repeats it.
fn passes<H: Harness>(name: &str, plan: &Plan, seeds: usize) -> Summary {
    let mut sum = Summary::default();
    for seed in Seed::several(seeds) {
        let (sender, receiver) = std::sync::mpsc::channel();
        run::<H>(name, &[], async |case| {
            sender
                .send(
                    plan.check(case, seed).await.unwrap_or_else(|wrong| panic!("{name}: {wrong}")),
                )
                .unwrap();
        });
        let one = receiver.recv().unwrap();
        sum.operations += one.operations;
        sum.grants += one.grants;
        sum.lost += one.lost;
        sum.unknown += one.unknown;
        sum.refusals += one.refusals;
    }
    eprintln!("{name}: {sum:?}");
    sum
}

macro_rules! pass {
    ($($calm:ident, $storm:ident: $kind:expr;)*) => {
        $(#[test]
        fn $calm() {
            passes::<MemoryHarness>(stringify!($calm), &Plan::calm($kind, ttls()), 3);
            // With few waiters, a refusal needs a holder as its reason.
            let sum = passes::<MemoryHarness>(stringify!($calm), &Plan::calm($kind, ttls()).few(), 3);
            assert!(sum.refusals > 0, "nobody was refused: {sum:?}");
        }

        #[test]
        fn $storm() {
            let sum = passes::<MemoryHarness>(stringify!($storm), &Plan::stormy($kind, ttls()), 6);
            assert!(sum.unknown > 0 && sum.lost > 0, "the storm did nothing: {sum:?}");
        })*
    };
}

pass! {
    mutexes_pass_in_a_calm, mutexes_pass_in_a_storm: Kind::Mutex;
    read_write_locks_pass_in_a_calm, read_write_locks_pass_in_a_storm: Kind::RwLock;
    semaphores_pass_in_a_calm, semaphores_pass_in_a_storm: Kind::Semaphore(3);
    resized_semaphores_pass_in_a_calm, resized_semaphores_pass_in_a_storm: Kind::Resized(&[1, 2, 4]);
    reentrant_mutexes_pass_in_a_calm, reentrant_mutexes_pass_in_a_storm: Kind::ReentrantMutex;
}

#[test]
fn locks_with_a_delay_pass_in_a_storm() {
    for kind in [Kind::Mutex, Kind::RwLock] {
        passes::<MemoryHarness>("delay", &Plan::stormy(kind, Ttls::quick()), 3);
    }
}

/// The history of one seed.
fn history_of(plan: &Plan, seed: Seed) -> History {
    let (sender, receiver) = std::sync::mpsc::channel();
    run::<Memory>("replay", &[], async |case| sender.send(plan.walk(case, seed).await).unwrap());
    receiver.recv().unwrap()
}

#[test]
fn a_seed_repeats_its_history() {
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore(3), Kind::ReentrantMutex] {
        let plan = Plan::stormy(kind, ttls());
        for seed in Seed::several(2) {
            let first = history_of(&plan, seed);
            assert_eq!(first, history_of(&plan, seed), "{kind:?} {seed}");
            assert_ne!(first, history_of(&plan, Seed::of(seed.number() ^ 1)), "{kind:?} {seed}");
        }
    }
}

/// The same plan, in which every task sometimes takes longer than a lease.
fn slow(mut plan: Plan) -> Plan {
    plan.habits.pause = plan.ttls.ttl * 2;
    plan
}

/// The fixed seeds of the search for a mutant, so that the result does not depend on luck.
fn fixed_seeds() -> impl Iterator<Item = Seed> {
    (0..20).map(Seed::of)
}

/// Asserts that histories on this wrong store break the named promise, and that no history with the
/// same seeds on the right store does.
fn caught<F: Mutant>(plan: &Plan, broken: &str) {
    let mut complaints = Vec::new();
    for seed in fixed_seeds() {
        let (sender, receiver) = std::sync::mpsc::channel();
        // A wrong store may also make the library panic because of an impossible answer.
        let panic = wrong::complaint::<MemoryHarness, F>("walk", async |case| {
            sender.send(plan.check(case, seed).await).unwrap();
        });
        let Ok(verdict) = receiver.try_recv() else {
            eprintln!("{seed}: {panic:?}");
            continue;
        };
        run::<Memory>("walk", &[], async |case| {
            plan.check(case, seed).await.unwrap();
        });
        complaints.extend(verdict.err());
        if complaints.iter().any(|complaint| complaint.contains(broken)) {
            let last = complaints.pop().unwrap();
            eprintln!("caught: {last}");
            return assert!(
                last.contains("(operation ") && last.contains("LOCKKEEPER_SEED="),
                "{last}"
            );
        }
    }
    panic!("not caught: {complaints:#?}");
}

macro_rules! caught {
    ($($test:ident: $mutant:ident on $plan:expr, breaks $broken:literal;)*) => {
        $(#[test]
        fn $test() {
            caught::<wrong::$mutant>(&$plan, $broken);
        })*
    };
}

caught! {
    what_is_given_away_twice: GivesAwayTwice on Plan::calm(Kind::Semaphore(3), ttls()), breaks "Exclusion";
    a_mutex_that_is_given_away_twice: GivesAwayTwice on Plan::calm(Kind::Mutex, ttls()), breaks "Exclusion";
    a_grant_of_somebody_else: GrantOfSomebodyElse on Plan::stormy(Kind::Mutex, ttls()), breaks "Token";
    a_token_of_the_predecessor: TokenOfThePredecessor on Plan::calm(Kind::Mutex, ttls()), breaks "Token";
    a_withdrawal_by_session: WithdrawBySession on Plan::calm(Kind::Semaphore(3), ttls()), breaks "Exclusion";
    a_claim_with_half_a_ttl: HalfATtl on Plan::stormy(Kind::Mutex, ttls()), breaks "Exclusion";
    holders_that_are_counted: CountsHolders on Plan::calm(Kind::Semaphore(3), ttls()), breaks "Exclusion";
    a_number_of_permits_of_others_that_is_ignored: OwnCapacityOnly on Plan::calm(Kind::Resized(&[1, 2, 4]), ttls()), breaks "Exclusion";
    a_downgrade_that_is_forgotten: ForgetsTheDowngraded on Plan::calm(Kind::RwLock, ttls()), breaks "Exclusion";
    an_upgrade_beside_readers: UpgradeBesideReaders on Plan::calm(Kind::RwLock, ttls()), breaks "Exclusion";
    a_reader_beside_the_upgraded: ReaderBesideTheUpgraded on Plan::calm(Kind::RwLock, ttls()).few(), breaks "Exclusion";
    an_upgrade_that_leaves_the_reader: UpgradeThatLeavesTheReader on Plan::calm(Kind::RwLock, ttls()).few(), breaks "Order";
    a_lock_delay_that_is_not_kept: NoLockDelay on slow(Plan::stormy(Kind::Mutex, Ttls::quick())), breaks "Order";
    a_release_of_anybodys: ReleaseWithoutOwnerCheck on Plan::stormy(Kind::Mutex, ttls()), breaks "Exclusion";
    a_try_that_stays_in_line: TryThatStays on Plan::calm(Kind::Mutex, ttls()).few(), breaks "Order";
}

/// Runs an engine of this habit with this seed.
async fn walk_of_an_engine(case: &Case, habit: Habit, seed: Seed) -> Result<Summary, String> {
    let plan = Plan::stormy(Kind::Mutex, ttls()).plain();
    let clock = case.clock().clone();
    let engine = |test_client: &TestClient, name: &_| {
        let line = Arc::clone(&test_client.line) as Arc<dyn Store>;
        Arc::new(SmallEngine::new(line, clock.clone(), ttls(), name, habit)) as _
    };
    plan.judge(&plan.walk_as(case, seed, &engine).await, seed)
}

fn an_engine_is_caught(habit: Habit) {
    for seed in fixed_seeds() {
        let (sender, receiver) = std::sync::mpsc::channel();
        run::<Memory>("right", &[], async |case| {
            walk_of_an_engine(case, Habit::Right, seed).await.unwrap();
        });
        run::<Memory>("wrong", &[], async |case| {
            sender.send(walk_of_an_engine(case, habit, seed).await).unwrap()
        });
        if let Err(complaint) = receiver.recv().unwrap() {
            eprintln!("caught: {complaint}");
            assert!(
                complaint.contains("Exclusion: acquire of") && complaint.contains("(operation "),
                "{complaint}"
            );
            return;
        }
    }
    panic!("not caught");
}

#[test]
fn an_engine_that_renews_after_the_deadline_is_caught() {
    an_engine_is_caught(Habit::RenewsAfterTheDeadline);
}

#[test]
fn an_engine_that_releases_on_a_lost_reply_is_caught() {
    an_engine_is_caught(Habit::ReleasesOnALostReply);
}
