//! The Redis store, on one server, behind Sentinels and in a Cluster.

use super::Test::Own;
use super::{Promises, Shown};
use crate::backend::redis::DRIVER;

pub(super) const PROMISES: Promises = Promises {
    name: "Redis",
    urls: &["redis://", "redis+sentinel://", "redis+cluster://"],
    driver: &DRIVER,
    layout: "native",
    shared_by: "many hosts",
    needs: Shown {
        says: "Redis 6.2 or newer, or Valkey, with `maxmemory-policy noeviction`. Other servers are refused.",
        by: &[Own("checks::tests::what_forgets_locks_is_refused_with_the_remedy_unless_that_is_waived")],
    },
    others: Shown { says: "None yet.", by: &[] },
    tokens: Shown {
        says: "A token is the server's time, or one more than the last token, so a loss of data alone does no harm. \
            The clock is behind if its time is before that of the last token.",
        by: &[
            Own("faults::restarts::tokens_rise_over_restarts_whatever_was_kept"),
            Own("faults::clocks::tokens_rise_while_the_clock_goes_to_and_fro"),
            Own(
                "faults::failover::a_failover_that_loses_a_grant_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
            ),
        ],
    },
    waking: Shown {
        says: "A release grants the lock to the next waiter, and sends that waiter a message. If the message is \
            lost, the waiter notices when the holder's lease would have expired, at the latest. A killed waiter \
            costs the waiters behind it 5 s at most.",
        by: &[
            Own("faults::messages::a_waiter_learns_that_it_was_granted"),
            Own("faults::messages::a_waiter_whose_grant_was_not_reported_finds_it_when_it_looks_again"),
            Own("faults::clients::a_dead_waiter_at_the_head_costs_a_waiters_ttl"),
            Own("faults::waiters::two_hundred_waiters_get_the_lock_once_each_in_order_and_with_few_commands"),
        ],
    },
    forgets: "when the server loses its data, or a replica takes over that did not have them",
    killed_costs: "when its ttl has passed",
    killed: Shown {
        says: "The locks of the holder are free when the rest of their ttl and the lock-delay have passed. A holder \
            that was stopped for longer finds its locks lost.",
        by: &[
            Own("faults::clients::a_killed_holder_costs_its_ttl"),
            Own("faults::clients::a_stopped_holder_has_lost_at_its_first_look"),
        ],
    },
    reported: Shown {
        says: "The store tells the holder of the break at once. If the message is lost, and in a Cluster from \
            Redis 7 on, the next renewal reports the break.",
        by: &[
            Own("faults::messages::a_holder_learns_that_its_lock_was_broken"),
            Own("faults::messages::a_break_that_was_not_reported_is_found_at_the_next_renewal"),
        ],
    },
    happens: &[
        (
            "the server is paused, or cut off",
            Shown {
                says: "Holders stop in time. The next holder has to wait for the server.",
                by: &[
                    Own(
                        "faults::pauses::a_server_that_stands_for_longer_than_the_ttl_ends_the_belief_and_what_comes_late_brings_nothing_back",
                    ),
                    Own("faults::silence::a_server_behind_a_dead_network_costs_the_lock_and_nothing_else"),
                ],
            },
        ),
        (
            "the server is restarted, with `appendfsync always`",
            Shown {
                says: "Locks are kept. With `everysec`, the last second is lost.",
                by: &[Own("faults::restarts::a_server_that_kept_its_data_keeps_the_lock_and_the_line")],
            },
        ),
        (
            "the server is restarted without its data",
            Shown {
                says: "**Forgotten: the next client gets a lock that is held.** The token tells the two holders \
                    apart. The older holder learns of the loss when it is connected again.",
                by: &[
                    Own(
                        "faults::restarts::k4_a_server_that_forgot_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
                    ),
                    Own("faults::restarts::the_holder_hears_at_once_that_the_server_forgot_everything"),
                ],
            },
        ),
        (
            "a replica takes over (Sentinels, Cluster)",
            Shown {
                says: "Locks that the replica has are kept. **The others are forgotten, and the next client gets a \
                    lock that is held.** The token tells the two holders apart. If the replica's clock is ahead, \
                    locks end earlier by the difference; a longer lock-delay covers that.",
                by: &[
                    Own("topologies::sentinels::a_failover_after_a_kill_keeps_what_the_replica_has"),
                    Own(
                        "faults::failover::a_failover_that_loses_a_grant_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
                    ),
                ],
            },
        ),
        (
            "the server's clock jumps forward",
            Shown {
                says: "**Locks end early if the jump is longer than the rest of their lease.** The token tells the \
                    two holders apart.",
                by: &[
                    Own(
                        "faults::clocks::k3_a_clock_that_jumps_ahead_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
                    ),
                    Own("faults::clocks::a_clock_that_jumps_ahead_by_less_than_the_ttl_costs_nobody_the_lock"),
                ],
            },
        ),
        (
            "the server's clock jumps back",
            Shown {
                says: "No lock is given out twice, and crashed clients are skipped after one ttl at most.",
                by: &[
                    Own("faults::clocks::a_clock_that_goes_back_costs_nobody_the_lock_and_tokens_still_rise"),
                    Own("faults::clocks::a_clock_that_goes_back_does_not_let_the_dead_live_for_an_hour"),
                ],
            },
        ),
        (
            "the server is full (`maxmemory`)",
            Shown {
                says: "Held locks are kept, renewed and released. New locks are refused.",
                by: &[Own("faults::refusals::a_full_server_grants_nothing_new_and_keeps_and_releases_what_is_held")],
            },
        ),
        (
            "a slot of a Cluster moves",
            Shown {
                says: "Locks without waiters are kept, renewed and released. Locks with waiters are kept and \
                    renewed, and released when the move ends; such a lock is lost if the move stops between two of \
                    its keys for longer than the ttl. If the new node's clock is ahead, locks end earlier by the \
                    difference; a longer lock-delay covers that.",
                by: &[
                    Own("topologies::clusters::a_slot_that_moves_takes_its_locks_along"),
                    Own("topologies::open_slots::locks_live_on_in_a_slot_that_stays_open_for_longer_than_their_ttl"),
                    Own(
                        "topologies::crossings::an_end_that_crosses_the_end_by_the_node_gives_nobody_a_lock_that_is_held",
                    ),
                ],
            },
        ),
        (
            "a master of a Cluster dies",
            Shown {
                says: "For locks in its slots, the same as when a replica takes over. Other locks are not affected.",
                by: &[Own("topologies::clusters::the_death_of_a_master_concerns_its_own_slots_only")],
            },
        ),
        (
            "clients are killed again and again",
            Shown {
                says: "The observations of the other clients fit an order that the locks allow, and nothing is left \
                    over.",
                by: &[Own("kills::histories_of_twenty_processes_that_are_killed_pass_and_nothing_is_left_of_them")],
            },
        ),
    ],
    suites: &[
        (
            "crates/live/tests/contract/redis.rs",
            &[
                "redis_standalone_crowded",
                "redis_in_a_storm",
                "redis_standalone",
                "redis_by_resp2",
                "redis_behind_tls",
                "redis_by_sentinels",
                "redis_with_a_replica",
                "redis_cluster",
                "redis_cluster_crowded",
            ],
        ),
        (
            "crates/live/tests/matrix/redis.rs",
            &[
                "redis_standalone",
                "redis_by_resp2",
                "redis_behind_tls",
                "redis_by_sentinels",
                "redis_with_a_replica",
                "redis_cluster",
                "redis_cluster_crowded",
                "redis_by_sentinels_in_a_storm",
                "redis_cluster_in_a_storm",
            ],
        ),
    ],
    more: Some("redis.md"),
};
