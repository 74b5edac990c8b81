//! The etcd store, on one member and on three, in its own layout and in that of Go's `concurrency` package.

use super::Test::{Own, Suite};
use super::{Promises, Shown};
use crate::backend::etcd::DRIVER;

pub(super) const NATIVE: Promises = Promises {
    name: "etcd",
    urls: &["etcd://", "etcds://"],
    driver: &DRIVER,
    layout: "native",
    shared_by: "many hosts",
    needs: Shown {
        says: "etcd 3.5.14 or newer on every member. Older members are refused.",
        by: &[
            Own("etcd_checks::the_oldest_one_is_used_and_older_ones_are_refused"),
            Own("checks::tests::\
                what_lets_two_hold_one_lock_is_refused_with_the_remedy_unless_that_is_waived"),
        ],
    },
    others: Shown { says: "None; see the layout `concurrency`.", by: &[] },
    tokens: Shown {
        says: "The token is the revision that created the claim's key. etcd can compare it in a transaction of \
            yours.",
        by: &[
            Own("etcd_registers::a_stale_holders_transaction_is_refused_by_etcd"),
            Own("etcd_faults::restarts::all_members_restart_and_a_holder_keeps_the_lock"),
        ],
    },
    waking: Shown {
        says: "A waiter watches the claim ahead of it, or all claims ahead if there are at most eight. It learns of \
            their end at once. The waiter checks its own key too, and does not get the lock if that key is gone. A \
            killed waiter costs the waiters behind it 6 s at most, and another half a second until etcd notices.",
        by: &[
            Own("etcd_faults::by_hand::a_lease_is_revoked_under_a_waiter_which_is_never_granted_afterwards"),
            Own("etcd_faults::by_hand::a_session_that_ends_while_it_waits_stands_in_line_anew"),
            Own("etcd_faults::compaction::the_history_is_compacted_while_one_waits"),
            Suite("expiry::a_dead_waiter_at_the_head_is_passed_by"),
        ],
    },
    forgets: "when a majority of its members loses its data",
    killed_costs: "when its ttl has passed",
    killed: Shown {
        says: "The locks of the holder are free when the rest of their ttl and the lock-delay have passed, in whole \
            seconds. A new leader starts that time again.",
        by: &[Suite("expiry::a_crash_frees_what_was_held")],
    },
    reported: Shown {
        says: "The store tells the holder of the break at once. If a key was deleted by hand, the next renewal \
            reports the loss.",
        by: &[
            Suite("breaking::a_mark_is_reported_before_the_next_has_the_lock"),
            Own("etcd_faults::by_hand::a_key_is_deleted_under_a_healthy_session"),
        ],
    },
    happens: &[
        (
            "the leader is killed, stands still, or is cut off",
            Shown {
                says: "Locks are kept. Holders and waiters go on at another member.",
                by: &[
                    Own("etcd_faults::leaders::a_leader_is_killed_while_one_holds_and_one_waits"),
                    Own("etcd_faults::leaders::a_leader_stands_still_while_one_holds_and_one_waits"),
                    Own("etcd_faults::leaders::a_leader_is_cut_off_while_one_holds_and_one_waits"),
                ],
            },
        ),
        (
            "a client reaches only a member without a majority",
            Shown {
                says: "The holder stops in time: such a member cannot renew a lock.",
                by: &[Own("etcd_faults::leaders::a_member_without_a_majority_renews_nothing")],
            },
        ),
        (
            "all members are restarted",
            Shown {
                says: "Locks are kept if their ttl is longer than the restart. A waiter keeps its place for 5 s at \
                    most; after a longer restart it joins the end of the queue.",
                by: &[Own("etcd_faults::restarts::all_members_restart_and_a_holder_keeps_the_lock")],
            },
        ),
        (
            "a lease is revoked by hand",
            Shown {
                says: "**Everything on the lease is free at once.** The next renewal tells the holders.",
                by: &[Own("etcd_faults::by_hand::a_lease_is_revoked_under_a_holder")],
            },
        ),
        (
            "answers are lost",
            Shown {
                says: "If no client knows of a claim, the claim is removed after a whole lease, also while its \
                    session lives.",
                by: &[
                    Own("etcd_faults::ghosts::a_ghost_is_swept_while_its_session_lives"),
                    Own("etcd_faults::ghosts::a_claim_that_comes_after_its_withdrawal_is_gone"),
                ],
            },
        ),
    ],
    suites: &[
        (
            "crates/live/tests/contract/etcd.rs",
            &[
                "etcd_one_crowded",
                "etcd_one_in_a_storm",
                "etcd_one",
                "etcd_three",
                "etcd_behind_tls",
                "etcd_oldest",
                "etcd_of_debian",
            ],
        ),
        (
            "crates/live/tests/matrix/etcd.rs",
            &["etcd_one", "etcd_three", "etcd_behind_tls", "etcd_oldest", "etcd_of_debian", "etcd_three_in_a_storm"],
        ),
    ],
    more: Some("etcd.md"),
};

pub(super) const CONCURRENCY: Promises = Promises {
    name: "etcd, shared with Go",
    urls: &["etcd://…?layout=concurrency"],
    driver: &DRIVER,
    layout: "concurrency",
    others: Shown {
        says: "Go's `concurrency.Mutex`, `etcdctl lock`, jetcd, and all clients of etcd's lock service. A value \
            that cannot be read counts as exclusive.",
        by: &[
            Own("each_waits_for_the_other"),
            Own("a_counter_of_both_loses_nothing"),
            Own("a_holder_that_dies_lets_the_other_in"),
        ],
    },
    suites: &[
        ("crates/live/tests/contract/etcd.rs", &["etcd_shared_with_go_crowded"]),
        ("crates/live/tests/matrix/etcd.rs", &["etcd_shared_with_go"]),
    ],
    ..NATIVE
};
