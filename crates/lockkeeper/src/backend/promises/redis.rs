//! The Redis store, on one server, behind Sentinels and in a Cluster.

use super::Test::Own;
use super::{Promises, Shown};
use crate::backend::redis::CAPABILITIES;

pub(super) const PROMISES: Promises = Promises {
    name: "Redis",
    urls: &["redis://", "redis+sentinel://", "redis+cluster://"],
    can: CAPABILITIES,
    shared_by: "many hosts",
    needs: Shown {
        says: "Redis 6.2 or newer, or Valkey, with `maxmemory-policy noeviction`. Others are refused.",
        by: &[Own(
            "backend::redis::checks::tests::what_forgets_locks_is_refused_with_the_remedy_unless_that_is_waived",
        )],
    },
    others: Shown { says: "None yet.", by: &[] },
    tokens: Shown {
        says: "They also rise when everything was lost, since they begin at the server's clock; a new master whose \
            clock is behind by more than the time since the last grant would break that.",
        by: &[
            Own("faults::restarts::tokens_rise_over_restarts_whatever_was_kept"),
            Own("faults::clocks::tokens_rise_while_the_clock_goes_to_and_fro"),
            Own(
                "faults::failover::a_failover_that_loses_a_grant_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
            ),
        ],
    },
    waking: Shown {
        says: "A release grants the lock to who is next, and tells it. If that message is lost, it finds out when the \
            holder's ttl would have been over, at the latest. A killed one costs those behind it 5 s at most.",
        by: &[
            Own("faults::messages::a_waiter_is_told_that_it_was_granted"),
            Own("faults::messages::a_waiter_whose_grant_was_not_told_finds_it_when_it_looks_again"),
            Own("faults::clients::a_dead_waiter_at_the_head_costs_a_waiters_life"),
            Own("faults::waiters::two_hundred_waiters_get_the_lock_once_each_in_order_and_with_few_commands"),
        ],
    },
    forgets: "when it loses its data, or a replica takes over that had not heard of them",
    killed_costs: "its ttl",
    killed: Shown {
        says: "It keeps its locks for what is left of their ttl, and the lock-delay. One that was stopped for longer \
            finds them lost.",
        by: &[
            Own("faults::clients::a_killed_holder_costs_its_ttl"),
            Own("faults::clients::a_stopped_holder_has_lost_at_its_first_look"),
        ],
    },
    told: Shown {
        says: "Hears of it at once; with its next renewal where the message is lost, and in a Cluster from Redis 7 on.",
        by: &[
            Own("faults::messages::a_holder_is_told_that_its_lock_was_broken"),
            Own("faults::messages::a_break_that_was_not_told_is_found_at_the_next_renewal"),
        ],
    },
    happens: &[
        (
            "the server is paused, or cut off",
            Shown {
                says: "Holders stop believing in time; the next one has to wait for the server.",
                by: &[
                    Own(
                        "faults::pauses::a_server_that_stands_for_longer_than_the_ttl_ends_the_belief_and_what_comes_late_brings_nothing_back",
                    ),
                    Own("faults::silence::a_server_behind_a_dead_network_costs_the_lock_and_nothing_else"),
                ],
            },
        ),
        (
            "it is restarted, `appendfsync always`",
            Shown {
                says: "Kept; with `everysec` but for the last second.",
                by: &[Own("faults::restarts::a_server_that_kept_its_data_keeps_the_lock_and_the_line")],
            },
        ),
        (
            "it is restarted without its data",
            Shown {
                says: "**Forgotten: the next one gets a lock that is held.** The token tells them apart. The older \
                    holder hears of it when it is connected again.",
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
                says: "Kept as far as the replica had heard of them. **The others are forgotten, and the next one \
                    gets a lock that is held.** The token tells them apart. Where the replica's clock is ahead, they \
                    end earlier by the difference: a lock-delay that is longer covers it.",
                by: &[
                    Own("topologies::sentinels::a_failover_after_a_kill_keeps_what_the_replica_has"),
                    Own(
                        "faults::failover::a_failover_that_loses_a_grant_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
                    ),
                ],
            },
        ),
        (
            "its clock jumps forward",
            Shown {
                says: "**They end early, if the jump is longer than what is left of them.** The token tells them \
                    apart.",
                by: &[
                    Own(
                        "faults::clocks::k3_a_clock_that_jumps_ahead_gives_the_lock_away_and_the_fence_refuses_the_older_holder",
                    ),
                    Own("faults::clocks::a_clock_that_jumps_ahead_by_less_than_the_ttl_costs_nobody_the_lock"),
                ],
            },
        ),
        (
            "its clock jumps back",
            Shown {
                says: "Nothing is given out twice, and the dead are passed by after one ttl at most.",
                by: &[
                    Own("faults::clocks::a_clock_that_goes_back_costs_nobody_the_lock_and_tokens_still_rise"),
                    Own("faults::clocks::a_clock_that_goes_back_does_not_let_the_dead_live_for_an_hour"),
                ],
            },
        ),
        (
            "it is full (`maxmemory`)",
            Shown {
                says: "Kept, renewed and released; new ones are refused.",
                by: &[Own("faults::refusals::a_full_server_grants_nothing_new_and_keeps_and_releases_what_is_held")],
            },
        ),
        (
            "a slot of a Cluster moves",
            Shown {
                says: "Kept, renewed and released, however long it takes; those that somebody waits for are released \
                    at its end. Where the new node's clock is ahead, they end earlier by the difference: a \
                    lock-delay that is longer covers it.",
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
                says: "Those of its slots as when a replica takes over; the others do not notice.",
                by: &[Own("topologies::clusters::the_death_of_a_master_concerns_its_own_slots_only")],
            },
        ),
        (
            "clients are killed again and again",
            Shown {
                says: "What the others observe can be put in an order that the locks allow, and nothing is left over.",
                by: &[Own("kills::histories_of_twenty_processes_that_are_killed_pass_and_nothing_is_left_of_them")],
            },
        ),
    ],
    suites: (
        "crates/live/tests/contract/redis.rs",
        &[
            "redis_standalone",
            "redis_by_resp2",
            "redis_behind_tls",
            "redis_by_sentinels",
            "redis_with_a_replica",
            "redis_cluster",
            "redis_in_a_storm",
            "redis_by_sentinels_in_a_storm",
            "redis_cluster_in_a_storm",
        ],
    ),
    more: Some("redis.md"),
};
