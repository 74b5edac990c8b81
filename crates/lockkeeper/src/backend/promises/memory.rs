//! The memory store: for one process, and for tests.

use super::Test::{Own, Suite};
use super::{Promises, Shown};
use crate::backend::memory::DRIVER;

pub(super) const PROMISES: Promises = Promises {
    name: "Memory",
    urls: &["memory:"],
    driver: &DRIVER,
    layout: "",
    shared_by: "one process",
    needs: Shown { says: "Nothing.", by: &[] },
    others: Shown { says: "None.", by: &[] },
    tokens: Shown {
        says: "They begin at 1 in every process, so they protect nothing that outlives the process. When the store \
            forgets an unused name, the tokens of that name still rise.",
        by: &[
            Suite("token::they_rise_over_releases"),
            Own("backend::memory::tests::tokens_go_on_when_unused_names_are_forgotten"),
        ],
    },
    waking: Shown {
        says: "A release wakes the next waiter.",
        by: &[Suite("wait::a_hand_off_wakes_the_next"), Suite("wait::a_hand_off_grants_nobody_else")],
    },
    forgets: "with its process",
    killed_costs: "—",
    killed: Shown {
        says: "The whole process is gone. The locks of a keeper that goes silent within the process are free \
            when their ttl has passed.",
        by: &[Suite("expiry::a_silent_holder_loses_the_lock")],
    },
    reported: Shown {
        says: "The next renewal reports the break, after a third of the ttl at most.",
        by: &[Suite("loss::a_removed_claim_is_found_out")],
    },
    happens: &[(
        "the process restarts",
        Shown {
            says: "All locks and tokens are gone.",
            by: &[Own("backend::memory::tests::two_stores_have_nothing_in_common")],
        },
    )],
    suites: &[("crates/lockkeeper/tests/it/contract.rs", &["memory_store", "memory_store_in_a_storm"])],
    more: None,
};
