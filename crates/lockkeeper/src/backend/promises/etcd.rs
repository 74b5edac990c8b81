//! The etcd store, on one member and on three, in its own layout and in that of Go's `concurrency` package.

use super::Test::{Own, Suite};
use super::{Promises, Shown};
use crate::backend::etcd::{CAPABILITIES, SHARED_CAPABILITIES};

pub(super) const NATIVE: Promises = Promises {
    name: "etcd",
    urls: &["etcd://", "etcds://"],
    can: CAPABILITIES,
    shared_by: "many hosts",
    needs: Shown {
        says: "etcd 3.5.14 or newer. Others are refused.",
        by: &[
            Own("etcd_checks::the_oldest_one_is_used_and_older_ones_are_refused"),
            Own("backend::etcd::checks::tests::\
                what_lets_two_hold_one_lock_is_refused_with_the_remedy_unless_that_is_waived"),
        ],
    },
    others: Shown { says: "None; see the layout `concurrency`.", by: &[] },
    tokens: Shown {
        says: "The token is the revision that made the claim's key, which etcd itself compares in a transaction of \
            one's own.",
        by: &[
            Own("etcd_registers::a_stale_holders_transaction_is_refused_by_etcd"),
            Own("etcd_faults::restarts::all_members_restart_and_a_holder_keeps_the_lock"),
        ],
    },
    waking: Shown {
        says: "A waiter watches whoever is before it, and hears of its end at once. It looks at its own place too, and is \
            not granted anything once that is gone. A killed one costs those behind it 6 s at most, and half a second \
            until etcd has looked.",
        by: &[
            Own("etcd_faults::by_hand::a_lease_is_revoked_under_a_waiter_which_is_never_granted_afterwards"),
            Own("etcd_faults::by_hand::a_session_that_ends_while_it_waits_stands_in_line_anew"),
            Own("etcd_faults::compaction::the_history_is_compacted_while_one_waits"),
            Suite("life::a_dead_waiter_at_the_head_is_passed_by"),
        ],
    },
    forgets: "when a majority of its members loses its data",
    killed_costs: "its ttl",
    killed: Shown {
        says: "It keeps its locks for what is left of their ttl, and the lock-delay, in whole seconds; a new leader begins \
            that time anew.",
        by: &[Suite("life::a_crash_frees_what_was_held")],
    },
    told: Shown {
        says: "Hears of it at once; of a key that was deleted by hand, with its next renewal.",
        by: &[
            Suite("breaking::a_mark_is_told_before_the_next_has_the_lock"),
            Own("etcd_faults::by_hand::a_key_is_deleted_under_a_healthy_session"),
        ],
    },
    happens: &[
        (
            "the leader is killed, stands still, or is cut off",
            Shown {
                says: "Kept. Holders go on at another member, waiters too.",
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
                says: "It stops believing in time: what that member remembers renews nothing.",
                by: &[Own("etcd_faults::leaders::a_member_without_a_majority_renews_nothing")],
            },
        ),
        (
            "all members are restarted",
            Shown {
                says: "Kept, with the line, for holders whose ttl is longer than that takes.",
                by: &[Own("etcd_faults::restarts::all_members_restart_and_a_holder_keeps_the_lock")],
            },
        ),
        (
            "a lease is revoked by hand",
            Shown {
                says: "**Everything on it is free at once.** Its holders hear of it with their next renewal.",
                by: &[Own("etcd_faults::by_hand::a_lease_is_revoked_under_a_holder")],
            },
        ),
        (
            "answers are lost",
            Shown {
                says: "A claim that nobody knows of is removed after a whole life, though its session lives.",
                by: &[
                    Own("etcd_faults::ghosts::a_ghost_is_swept_while_its_session_lives"),
                    Own("etcd_faults::ghosts::a_claim_that_comes_after_its_withdrawal_is_gone"),
                ],
            },
        ),
    ],
    suites: (
        "crates/live/tests/contract/etcd.rs",
        &[
            "etcd_one",
            "etcd_three",
            "etcd_behind_tls",
            "etcd_of_debian",
            "etcd_one_in_a_storm",
            "etcd_three_in_a_storm",
        ],
    ),
    more: Some("etcd.md"),
};

pub(super) const CONCURRENCY: Promises = Promises {
    name: "etcd, shared with Go",
    urls: &["etcd://…?layout=concurrency"],
    can: SHARED_CAPABILITIES,
    others: Shown {
        says: "Go's `concurrency.Mutex`, `etcdctl lock`, jetcd, and whatever calls etcd's lock service. What cannot be \
            read counts as exclusive.",
        by: &[],
    },
    suites: ("crates/live/tests/contract/etcd.rs", &["etcd_shared_with_go"]),
    ..NATIVE
};
