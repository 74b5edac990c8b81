//! The promises of each store, and the tests that show them. `docs/stores/NAME.md` has the
//! promises, with one page for each layout of a store. These tests check the pages, and write the
//! generated part of each page and of `docs/stores.md`.
//!
//! A store adds itself with a page. The part that follows from its
//! [`Capabilities`](lockkeeper::store::Capabilities) is generated.
#![cfg(all(feature = "stores", target_os = "linux"))]

mod page;
mod stores;
mod suite;
mod words;

use std::path::{Path, PathBuf};
use std::{env, fs};

use self::page::Page;

/// The promises of all stores, and the cases of the suite that show them. A store leaves out a case
/// that needs more capabilities than it has, and the page says so.
const OF_ALL: &[(&str, &[&str])] = &[
    (
        "The guards of two clients never report one exclusive lock as held at the same time.",
        &["storm::two_never_hold_at_once", "mutex::no_increment_is_lost"],
    ),
    (
        "A holder that cannot reach its store stops before the next holder begins.",
        &["loss::a_silent_store_ends_the_hold_in_time"],
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
        &[
            "rw_lock::readers_hold_it_together_and_writers_alone",
            "rw_lock::neither_readers_nor_writers_starve",
        ],
    ),
    (
        "No more permits are held than there are.",
        &["semaphore::there_are_so_many_permits_and_no_more"],
    ),
    (
        "A leader that vanishes is followed by the next candidate.",
        &["election::a_vanished_leader_is_followed_by_the_next"],
    ),
    (
        "A holder whose lock is broken learns who broke it and why, before another holder has the lock.",
        &[
            "loss::a_broken_lock_reports_who_and_why",
            "breaking::a_mark_is_reported_before_the_next_has_the_lock",
        ],
    ),
    (
        "An attempt that is dropped at any await leaves nothing behind.",
        &["cancel::a_lock_can_be_dropped_in_a_storm", "cancel::a_wait_can_be_dropped_at_any_poll"],
    ),
];

/// Rows that need no test.
const PLAIN: [&str; 2] = ["Needs", "Other programs"];

/// The lists of the ways to each server, which several programs run.
const WAYS: &str = "crates/live/src/contract";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_promise_is_shown_by_a_test_that_runs_on_its_store() {
    for page in Page::all() {
        for row in page.rows() {
            let [of, says, by] = row[..] else {
                panic!("{}: {row:?} has no three cells", page.file)
            };
            assert!(
                PLAIN.contains(&of) || !by.is_empty(),
                "{}: {says:?} is shown by nothing",
                page.file
            );
        }
        let own = page
            .rows()
            .into_iter()
            .flat_map(|row| page::cases(row[2]).map(str::to_owned).collect::<Vec<_>>());
        let capable = words::rows(page.can()).into_iter().flat_map(|(_, _, by)| by);
        let capable = capable.flat_map(|by| page::cases(by).map(str::to_owned).collect::<Vec<_>>());
        for case in own.chain(capable) {
            assert_eq!(
                suite::missing(&case, page.can()),
                None,
                "{case} is not run on {}",
                page.file
            );
        }
    }
}

#[test]
fn every_layout_of_every_driver_has_a_page() {
    let pages = Page::all();
    let layouts = page::layouts();
    for (driver, layout) in &layouts {
        let of = |page: &&Page| std::ptr::eq(page.driver, *driver) && page.layout == *layout;
        assert_eq!(pages.iter().filter(of).count(), 1, "{} {layout}", driver.name);
    }
    assert_eq!(
        fs::read_dir(root().join(page::FOLDER)).unwrap().count(),
        layouts.len(),
        "a page of no store"
    );
}

#[test]
fn every_case_that_is_named_for_all_stores_is_in_the_suite() {
    for case in OF_ALL.iter().flat_map(|(_, cases)| *cases) {
        suite::needs(case);
    }
}

/// A program names a suite itself, or takes it from the list of the ways to a server.
#[test]
fn every_suite_that_is_named_is_where_it_is_said_to_be() {
    let text = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    for page in Page::all() {
        for (file, module) in page.suites() {
            let mut harness = text(file);
            for entry in fs::read_dir(root().join(WAYS)).unwrap() {
                let file = entry.unwrap().file_name().into_string().unwrap();
                if harness.contains(&format!("{}_ways!", file.trim_end_matches(".rs"))) {
                    harness += &text(&format!("{WAYS}/{file}"));
                }
            }
            let declared = [format!("mod {module};"), format!("    {module}:")];
            assert!(
                declared.iter().any(|line| harness.contains(line)),
                "{file} has no suite {module}"
            );
        }
    }
}

/// `cargo xtask tables` sets the variable to write the pages.
#[test]
fn the_pages_of_the_stores_are_up_to_date() {
    let pages = Page::all();
    let each = pages.iter().map(|page| (page.file.clone(), page.generated()));
    for (file, generated) in each.chain([("docs/stores.md".to_owned(), stores::generated(&pages))])
    {
        let path = root().join(&file);
        let old = fs::read_to_string(&path).unwrap();
        let new = page::put_into(&old, &generated);
        if env::var_os("LOCKKEEPER_TABLES").is_some() {
            fs::write(&path, new).unwrap();
        } else {
            assert!(old == new, "{file} is not what the stores promise. Try: cargo xtask tables");
        }
    }
}
