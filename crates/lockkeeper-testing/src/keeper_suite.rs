//! The cases of the public interface.

/// Like [`suite!`](crate::suite), with the cases of the public interface only. For a store on which
/// the cases have to pass under other conditions, such as [`InAStorm`](crate::InAStorm).
#[macro_export]
macro_rules! keeper_suite {
    (mod $module:ident; harness = $harness:ty; lacks = [$($lack:ident),* $(,)?]; left_out = $left_out:literal) => {
        $crate::__keeper_cases! { __tests [$module $harness, [$($lack)*] $left_out], }
    };
}

/// Every case of the public interface, after the cases of the arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __keeper_cases {
    ($callback:ident $args:tt, $($of_the_store:tt)*) => {
        $crate::$callback! {
            $args
            $($of_the_store)*
            mutex {
                a_second_holder_waits_for_the_first [Queue]
                a_try_on_a_busy_lock_is_none []
                a_wait_ends_with_its_time []
                to_wait_for_no_time_is_to_try []
                no_increment_is_lost [NoFaults]
                a_dropped_guard_is_released [NoFaults]
                a_holder_is_seen_as_it_says []
                a_sequencer_is_valid_while_its_grant_is []
                waiting_for_oneself_is_refused []
                what_can_never_work_is_refused []
                a_prefix_and_a_name_are_one_name [Admin]
                a_higher_epoch_outranks_the_lower [Epochs]
                a_full_line_takes_nobody [Queue]
                a_shutdown_lets_go_of_everything [Queue]
            }
            unfair {
                it_waits_for_the_lock_without_a_place_in_line []
                an_unfair_claim_never_overtakes_a_waiter [Queue]
                a_release_wakes_it [NoFaults]
                its_wait_ends_with_its_time []
                many_of_them_lose_no_increment [NoFaults]
                it_keeps_to_its_lease [NoFaults]
            }
            multi {
                all_are_held_in_the_order_of_their_names []
                a_try_takes_all_or_nothing []
                a_wait_that_ends_leaves_nothing []
                one_wait_is_for_all_of_them []
                the_loss_of_one_is_the_loss_of_all [Admin]
                what_is_lost_while_others_are_waited_for_is_acquired_again [Queue Admin]
                crossing_names_never_wait_for_each_other []
                a_fixed_lease_begins_when_all_are_held [Queue NoFaults]
                max_hold_begins_when_all_are_held [Queue NoFaults]
                waiting_for_oneself_is_refused_and_leaves_nothing []
                unfair_ones_wait_beside_every_line []
                each_is_held_in_its_own_mode [Weighted]
                a_name_counts_once_in_its_strongest_mode [Weighted]
                mixed_modes_never_wait_for_each_other [ReadWrite]
                a_dropped_one_is_released [NoFaults]
            }
            rw_lock {
                readers_hold_it_together_and_writers_alone [ReadWrite]
                neither_readers_nor_writers_starve [Queue ReadWrite]
                a_wait_ends_with_its_time [ReadWrite]
                a_downgrade_lets_readers_in_and_no_writer [Queue ReadWrite Amend NoFaults]
                what_cannot_be_downgraded_comes_back [ReadWrite Amend NoFaults]
                a_lone_reader_becomes_the_writer [ReadWrite Amend NoFaults]
                a_reader_in_company_stays_a_reader [Queue ReadWrite NoFaults]
                two_upgraders_stay_readers_until_one_gives_way [ReadWrite NoFaults]
                only_a_reader_is_upgraded []
                an_upgrade_without_an_answer_ends_both [ReadWrite NoFaults]
                a_fixed_lease_is_upgraded [ReadWrite NoFaults]
                max_hold_outlives_an_upgrade [ReadWrite NoFaults]
                waiting_behind_oneself_is_refused [Queue ReadWrite]
            }
            reentrant {
                its_owner_takes_it_again [Queue]
                tasks_of_one_owner_share_one_claim [Queue]
                its_guards_are_lost_together [NoFaults]
                a_plain_guard_is_not_joined []
                it_is_renewed_for_its_last_guard [NoFaults]
            }
            election {
                one_leads_and_the_next_follows [Queue]
                a_proclaimed_value_is_shown [Amend NoFaults]
                an_observer_sees_leaders_and_vacancies [Queue Amend NoFaults]
                a_vanished_leader_is_followed_by_the_next [NoFaults]
                a_broken_leader_is_reported [Admin NoFaults]
                an_election_is_the_mutex_of_its_name [ReadWrite]
            }
            semaphore {
                there_are_so_many_permits_and_no_more [Queue Weighted]
                permits_are_given_back_one_by_one [Amend Queue Weighted NoFaults]
                an_adopted_guard_gives_back_all_or_nothing [Amend Weighted NoFaults]
                who_wants_many_is_not_overtaken [Queue Weighted]
                permits_are_leased_and_renewed [Queue Weighted NoFaults]
                the_number_of_permits_may_change_while_it_is_in_use [Queue Weighted]
                another_kind_of_lock_is_refused [Weighted]
                impossible_numbers_are_refused [Weighted]
                unfair_ones_wait_beside_the_line [Weighted]
                many_tasks_share_few_permits [Queue Weighted]
                waiting_behind_oneself_is_refused [Queue Weighted NoFaults]
            }
            detached {
                it_outlives_its_process [Detached]
                it_ends_with_its_lease_when_nobody_renews_it [Detached NoFaults]
                a_renewal_begins_its_ttl_again [Detached NoFaults]
                an_adopted_lock_is_not_held_before_the_first_answer [Detached NoFaults]
                what_was_adopted_is_believed_for_its_lease_and_no_longer [Detached NoFaults]
                dropping_what_was_adopted_leaves_it [Detached]
                a_shutdown_leaves_it [Detached]
                a_second_release_finds_it_lost [Detached]
                a_waiting_claim_is_granted_its_whole_ttl [Detached Queue NoFaults]
                one_that_gives_up_leaves_nothing [Detached]
                who_broke_it_is_reported_to_who_renews [Detached Admin NoFaults]
                a_late_release_lets_the_delay_run_out [Detached LockDelay NoFaults]
                nobody_renews_it_but_by_hand [Detached NoFaults]
            }
            tasks {
                one_of_them_waits_in_line [Queue]
                a_place_in_line_is_inherited [Queue Amend NoFaults]
                nobody_is_left_when_all_give_up [Queue]
                a_timeout_in_the_queue_holds_up_nobody []
                a_process_does_not_keep_the_lock_to_itself [Queue]
            }
            loss {
                a_lock_is_kept_for_many_ttls [NoFaults]
                a_silent_store_ends_the_hold_in_time [NoFaults]
                a_short_outage_is_survived [NoFaults]
                a_renewal_that_hangs_is_reported [NoFaults]
                a_lost_lock_stays_lost [NoFaults]
                a_late_answer_revives_nothing [NoFaults]
                a_broken_lock_reports_who_and_why [Admin NoFaults]
                a_removed_claim_is_found_out [Admin NoFaults]
                max_hold_ends_a_hold [NoFaults]
                a_fixed_lease_is_not_renewed [NoFaults]
                a_fixed_lease_begins_at_the_grant [Queue NoFaults]
                a_scope_ends_with_the_lock [NoFaults]
                with_returns_the_loss_or_the_users_error [NoFaults]
                every_guard_learns_of_the_loss [NoFaults]
            }
            breaking {
                a_mark_is_reported_before_the_next_has_the_lock [Admin]
                a_removal_gives_the_lock_to_the_next_at_once [Queue Admin]
                a_removal_of_what_was_marked_is_reported [Admin NoFaults]
                a_token_names_its_holder_and_nobody_else [Queue Admin]
                a_waiter_that_is_broken_goes_to_the_end [Queue Admin]
                who_is_not_there_is_not_broken [Admin]
                what_can_never_be_broken_is_refused [Admin]
            }
            asking {
                a_holder_learns_who_asks_and_why [Admin NoFaults]
                a_request_before_the_wait_is_not_missed [Admin NoFaults]
                the_next_holder_is_not_asked [Queue Admin NoFaults]
                all_who_hold_are_asked [Admin ReadWrite NoFaults]
                a_leader_and_a_converted_guard_are_asked [Admin ReadWrite NoFaults]
                a_request_while_the_holder_is_cut_off_arrives_later [Admin NoFaults]
                who_has_adopted_it_is_asked [Admin Detached NoFaults]
            }
            delay {
                a_release_in_time_is_immediate [LockDelay NoFaults]
                a_drop_in_time_is_immediate [LockDelay NoFaults]
                a_panic_lets_the_delay_run_out [LockDelay NoFaults]
                a_late_release_lets_the_delay_run_out [LockDelay NoFaults]
                a_crash_lets_the_delay_run_out [LockDelay NoFaults]
                a_pushed_grant_has_its_delay [Queue LockDelay NoFaults]
            }
            min_hold {
                a_release_leaves_the_rest_to_the_store [MinHold NoFaults]
                a_drop_and_a_shutdown_leave_it [MinHold NoFaults]
                it_costs_nothing_once_it_is_over [MinHold NoFaults]
                who_gives_up_keeps_nothing [MinHold Queue NoFaults]
                each_task_has_its_own [MinHold Queue NoFaults]
                a_multi_lock_that_gets_not_all_keeps_none [MinHold Amend NoFaults]
                an_entry_of_its_owner_has_it [MinHold Amend NoFaults]
                a_conversion_keeps_it [MinHold Amend ReadWrite NoFaults]
                an_attempt_never_waits_for_what_it_has_kept_itself [MinHold Queue NoFaults]
                a_multi_lock_never_waits_for_a_part_that_it_has_kept [MinHold Queue Admin NoFaults]
                who_is_dropped_before_its_answer_keeps_nothing [MinHold Queue NoFaults]
                nobody_leads_while_it_lasts [MinHold Queue NoFaults]
                what_the_store_cannot_keep_is_refused []
            }
            cancel {
                a_lock_can_be_dropped_at_any_poll [NoFaults]
                a_lock_can_be_dropped_in_a_storm [NoFaults]
                a_minimum_hold_can_be_dropped_at_any_poll [MinHold Queue NoFaults]
                a_wait_can_be_dropped_at_any_poll [NoFaults]
                an_unfair_wait_can_be_dropped_at_any_poll [NoFaults]
                an_upgrade_can_be_dropped_at_any_poll [ReadWrite NoFaults]
                a_downgrade_can_be_dropped_at_any_poll [ReadWrite Amend NoFaults]
                a_multi_lock_can_be_dropped_at_any_poll [NoFaults]
                a_release_of_many_can_be_dropped_at_any_poll [NoFaults]
                a_release_can_be_dropped_at_any_poll [NoFaults]
                a_detached_attempt_can_be_dropped_at_any_poll [Detached NoFaults]
                an_adopted_release_can_be_dropped_at_any_poll [Detached NoFaults]
                a_try_can_be_dropped_at_any_poll [NoFaults]
                a_task_can_be_aborted [NoFaults]
            }
            storm {
                two_never_hold_at_once [NoFaults]
                an_outage_breaks_nothing [NoFaults]
                everybody_gets_it_in_the_end [NoFaults]
            }
        }
    };
}
