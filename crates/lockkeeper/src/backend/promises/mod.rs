//! What each store promises, and which test shows it: the data of `docs/stores.md`, and what writes that page.
//!
//! A store adds itself with a file beside `redis.rs` and a line in [`STORES`]. What follows from its
//! [`Capabilities`] is not said there again.
#![cfg(all(feature = "etcd", feature = "file", feature = "redis", target_os = "linux"))]

mod etcd;
mod file;
mod memory;
mod page;
mod redis;
mod suite;
mod versions;
mod words;

use std::path::{Path, PathBuf};
use std::{env, fs};

use self::Test::Suite;
use crate::store::{Capabilities, Driver};

/// In the order of the page.
const STORES: &[&Promises] = &[&memory::PROMISES, &file::PROMISES, &redis::PROMISES, &etcd::NATIVE, &etcd::CONCURRENCY];

/// What holds on all of them, and the cases of the suite that show it. A case that needs more than a store has is left
/// out on it, and the page says so.
const OF_ALL: &[(&str, &[&str])] = &[
    (
        "The guards of two clients never report one exclusive lock as held at the same time.",
        &["storm::nobody_believes_beside_another", "mutex::no_increment_is_lost"],
    ),
    (
        "A holder that cannot reach its store stops before the next holder begins.",
        &["loss::a_silent_store_ends_the_belief_in_time"],
    ),
    (
        "A lost lock stays lost, even if an answer arrives late.",
        &[
            "loss::a_late_answer_revives_nothing",
            "renew::a_renewal_never_revives_what_expired",
            "withdraw::a_claim_after_its_withdrawal_is_gone",
        ],
    ),
    (
        "Waiters are served in the order of their arrival. Waiters that have crashed are skipped.",
        &[
            "line::the_lock_is_handed_on_in_order",
            "line::nobody_overtakes_at_the_hand_off",
            "expiry::a_dead_waiter_in_the_middle_is_passed_by",
        ],
    ),
    (
        "Readers share, writers are alone, and neither starves.",
        &["rw_lock::readers_hold_it_together_and_writers_alone", "rw_lock::neither_readers_nor_writers_starve"],
    ),
    ("No more permits are held than there are.", &["semaphore::there_are_so_many_permits_and_no_more"]),
    (
        "A leader that vanishes is followed by the next candidate.",
        &["election::a_vanished_leader_is_followed_by_the_next"],
    ),
    (
        "A holder whose lock is broken hears who broke it and why, before another holder has the lock.",
        &["loss::a_broken_lock_tells_who_and_why", "breaking::a_mark_is_reported_before_the_next_has_the_lock"],
    ),
    (
        "An attempt that is dropped at any await leaves nothing behind.",
        &["cancel::a_lock_can_be_dropped_in_a_storm", "cancel::a_wait_can_be_dropped_at_any_poll"],
    ),
];

/// What one store promises: of a store with several layouts, what one layout does.
struct Promises {
    /// The heading of its section.
    name: &'static str,
    /// How its URLs begin.
    urls: &'static [&'static str],
    /// Its driver, and its layout there.
    driver: &'static Driver,
    layout: &'static str,
    /// Between whom its locks are.
    shared_by: &'static str,
    /// What has to be there: systems, versions.
    needs: Shown,
    /// Other programs that take part in its locks.
    others: Shown,
    /// What becomes of its tokens, besides what its capabilities say.
    tokens: Shown,
    /// How the next one in line is woken, besides what its capabilities say.
    waking: Shown,
    /// When it forgets who holds what, in a few words.
    forgets: &'static str,
    /// When the lock of a killed holder is free, in a few words.
    killed_costs: &'static str,
    /// And in a sentence.
    killed: Shown,
    /// When a holder hears that its lock is broken.
    reported: Shown,
    /// What happens to the store, a restart at least, and what becomes of the locks then.
    happens: &'static [(&'static str, Shown)],
    /// The files of its suites, from the root of the repository, and the suites in each.
    suites: &'static [(&'static str, &'static [&'static str])],
    /// A page of its own, beside this one.
    more: Option<&'static str>,
}

/// A sentence, and the tests that show it.
struct Shown {
    says: &'static str,
    by: &'static [Test],
}

/// The name of a test.
enum Test {
    /// A case of the suite, which all stores run: `expiry::a_crash_frees_what_was_held`.
    Suite(&'static str),
    /// As `cargo test` prints it. `cargo xtask tidy` looks whether it is there.
    Own(&'static str),
}

impl Promises {
    /// What it can do.
    fn can(&self) -> &'static Capabilities {
        let layout = self.driver.layouts.iter().find(|layout| layout.name == self.layout);
        layout.expect("the driver has the layout").capabilities
    }

    /// Everything that it says itself.
    fn shown(&self) -> impl Iterator<Item = &Shown> {
        let fixed = [&self.needs, &self.others, &self.tokens, &self.waking, &self.killed, &self.reported];
        fixed.into_iter().chain(self.happens.iter().map(|(_, shown)| shown))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_promise_is_shown_by_a_test_that_runs_on_its_store() {
    for store in STORES {
        assert!(!store.happens.is_empty(), "{}: a restart happens to every store", store.name);
        for shown in [&store.tokens, &store.waking, &store.killed, &store.reported]
            .into_iter()
            .chain(store.happens.iter().map(|(_, shown)| shown))
        {
            assert!(!shown.by.is_empty(), "{}: {:?} is shown by nothing", store.name, shown.says);
        }
        let own = store.shown().flat_map(|shown| shown.by);
        let capable = words::rows(store.can()).into_iter().flat_map(|(_, _, by)| by);
        for test in own.chain(&capable.collect::<Vec<_>>()) {
            let Suite(case) = test else { continue };
            let missing = suite::missing(case, store.can());
            assert_eq!(missing, None, "{case} is not run on {}", store.name);
        }
    }
}

#[test]
fn every_layout_of_every_driver_promises_something() {
    for driver in crate::drivers().into_iter().filter(|driver| driver.name != "Shelf") {
        for layout in driver.layouts {
            let promises = |store: &&&Promises| std::ptr::eq(store.driver, driver) && store.layout == layout.name;
            assert_eq!(STORES.iter().filter(promises).count(), 1, "{} {}", driver.name, layout.name);
        }
    }
}

#[test]
fn every_case_that_is_named_for_all_stores_is_in_the_suite() {
    for case in OF_ALL.iter().flat_map(|(_, cases)| *cases) {
        suite::needs(case);
    }
}

#[test]
fn every_suite_that_is_named_is_where_it_is_said_to_be() {
    for (file, modules) in STORES.iter().flat_map(|store| store.suites) {
        let harness = fs::read_to_string(root().join(file)).unwrap();
        for module in *modules {
            let declared = [format!("mod {module};"), format!("    {module}: ")];
            assert!(declared.iter().any(|line| harness.contains(line)), "{file} has no suite {module}");
        }
    }
}

/// `cargo xtask tables` sets the variable, and has the page written.
#[test]
fn the_page_of_the_stores_is_up_to_date() {
    let path = root().join("docs/stores.md");
    let old = fs::read_to_string(&path).unwrap();
    let new = page::put_into(&old, &page::generated(STORES));
    if env::var_os("LOCKKEEPER_TABLES").is_some() {
        fs::write(&path, new).unwrap();
    } else {
        assert!(old == new, "docs/stores.md is not what the stores promise. Try: cargo xtask tables");
    }
}
