//! The file store: for the processes of one host.

use super::Test::{Own, Suite};
use super::{Promises, Shown};
use crate::backend::file::DRIVER;

pub(super) const PROMISES: Promises = Promises {
    name: "File",
    urls: &["file:PATH"],
    driver: &DRIVER,
    layout: "",
    shared_by: "the processes of one host",
    needs: Shown {
        says: "Linux, and a file system that is known to be local to one host. Other file systems are refused, \
            unless the URL says `unsafe=network-fs`.",
        by: &[
            Own("filesystem::tests::a_file_system_that_others_can_reach_is_refused"),
            Own("filesystem::tests::a_file_system_that_nobody_knows_is_refused_with_its_number"),
        ],
    },
    others: Shown {
        says: "None. A database of another program is refused.",
        by: &[Own("tests::opening::what_is_not_ours_is_refused_with_a_remedy")],
    },
    tokens: Shown {
        says: "Each token is on the disk before it is given out. Tokens go back only when the file is deleted \
            *and* the clock of the host is set back.",
        by: &[
            Own("tests::opening::a_token_reaches_the_disk_before_it_is_given_out"),
            Own("processes::tokens_rise_over_restarts"),
            Own("tests::opening::tokens_go_on_after_reopening_and_in_a_file_that_was_made_anew"),
        ],
    },
    waking: Shown {
        says: "A release wakes the next process through the kernel (inotify). A killed waiter is skipped at once, \
            and observers learn of a killed holder.",
        by: &[
            Suite("wait::a_hand_off_wakes_the_next"),
            Own("tests::waiting::a_notify_file_wakes_the_waiter_of_another_store"),
            Own("tests::waiting::the_dead_in_the_middle_of_a_line_wake_their_successor_once"),
            Own("tests::waiting::who_begins_to_wait_after_a_death_was_put_on_record_elsewhere_is_woken_at_once"),
            Own("tests::waiting::an_observer_hears_of_the_end_of_a_holder_whenever_it_began_to_wait"),
        ],
    },
    forgets: "when the host restarts, with all holders",
    killed_costs: "at once",
    killed: Shown {
        says: "The locks of the holder are free at once, since the kernel reports the end of its process. With a \
            lock-delay they are free after the delay. The locks of a holder that was stopped, and not killed, are \
            free after their ttl.",
        by: &[
            Own("processes::a_killed_holder_is_gone_at_once"),
            Own("processes::a_killed_holders_delay_runs_out_first"),
            Own("tests::processes::a_stopped_process_keeps_its_lock_for_its_ttl_and_no_longer"),
        ],
    },
    reported: Shown {
        says: "The next renewal reports who broke the lock and why, after a third of the ttl at most. After `break \
            --now` it does too.",
        by: &[
            Suite("loss::a_removed_claim_is_found_out"),
            Own("tests::basics::who_removed_a_claim_at_once_is_reported_to_its_holder"),
        ],
    },
    happens: &[
        (
            "the host restarts",
            Shown {
                says: "All locks are free, since all holders are gone. Tokens go on.",
                by: &[
                    Own("tests::opening::another_boot_empties_the_lines_but_not_the_fences"),
                    Own("tests::opening::another_boot_keeps_the_fence_of_what_was_held"),
                    Own("tests::opening::a_restart_is_believed_although_the_clock_has_passed_the_old_times"),
                ],
            },
        ),
        (
            "a container on the same kernel has another boot id (LXC, systemd-nspawn)",
            Shown {
                says: "The store refuses to open there while a lock is held, a detached lock or a lock-delay too. **This is not promised if the date of the host was set forward by more than half of its uptime: then a detached lock or a lock-delay is forgotten.** The token tells the two holders apart.",
                by: &[
                    Own("tests::opening::another_boot_is_not_believed_while_a_client_of_this_one_lives"),
                    Own("tests::opening::a_detached_lock_outlasts_an_opening_with_another_boot_id"),
                    Own("tests::opening::a_lock_delay_outlasts_an_opening_with_another_boot_id"),
                    Own(
                        "tests::opening::with_another_boot_id_a_date_that_was_set_far_forward_passes_for_a_restart_and_the_fence_goes_on",
                    ),
                    Own("tests::processes::a_container_with_a_boot_id_of_its_own_frees_no_detached_lock"),
                ],
            },
        ),
        (
            "the file, or its log, is deleted or replaced",
            Shown {
                says: "The store closes in every process that has it open (`Closed`). A holder stops with its next \
                    renewal, after a third of the ttl at most. Until then, a program that opens the path may hold \
                    the same lock in another file. The fence refuses the older token.",
                by: &[
                    Own("tests::faults::a_file_that_was_deleted_or_replaced_is_not_used_any_more"),
                    Own("tests::faults::a_file_or_a_log_that_alone_was_deleted_or_replaced_is_not_used_any_more"),
                    Own("tests::faults::what_is_committed_to_a_file_that_was_deleted_within_the_turn_is_not_believed"),
                    Own("engine::sessions::a_store_that_says_that_it_has_closed_ends_what_is_held_at_once"),
                ],
            },
        ),
        (
            "the disk is full",
            Shown {
                says: "New locks are refused. Held locks are renewed as long as the log beside the file does not \
                    have to grow; it grows up to 4 MiB. Otherwise held locks are lost at their deadline.",
                by: &[Own("tests::faults::a_full_disk_is_unavailable_and_nothing_has_happened")],
            },
        ),
        (
            "a process is stopped in the middle of a write",
            Shown {
                says: "No process can write until that process goes on. Holders stop in time.",
                by: &[
                    Own("tests::faults::a_stopped_process_in_the_gate_stops_writes_but_not_reads"),
                    Own("processes::deadlines_fire_while_somebody_stands_in_the_gate"),
                ],
            },
        ),
        (
            "a process is killed in the middle of a write, and a child that it has forked lives on",
            Shown {
                says: "The other processes go on, and the locks of the killed process end with their ttl. Only a \
                    child that was forked during that write keeps the others from writing, until the child ends.",
                by: &[Own(
                    "tests::processes::a_child_of_a_process_that_is_killed_inside_the_gate_does_not_keep_it_shut",
                )],
            },
        ),
        (
            "processes are killed again and again",
            Shown {
                says: "The observations of the other clients fit an order that the locks allow, and nothing is left \
                    over.",
                by: &[Own("kills::histories_of_processes_that_are_killed_pass_and_nothing_is_left_of_them")],
            },
        ),
    ],
    suites: &[("crates/lockkeeper/tests/it/contract.rs", &["file_store", "file_store_in_a_storm"])],
    more: None,
};
