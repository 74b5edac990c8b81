//! The cases of a store, and the macros that make tests of cases. The cases of the public interface
//! are in `keeper_suite`.

/// Makes a module of tests for one store: one test for each case of the contract, with the case's
/// name.
///
/// `harness` is a type that implements [`Harness`](crate::Harness). `lacks` names everything that
/// cases [need](crate::Need) and the store or its harness does not have. `left_out` counts the
/// cases that need anything of this list. One more test asserts that both are true.
///
/// ```
/// lockkeeper_testing::suite! {
///     mod memory_store;
///     harness = lockkeeper_testing::MemoryHarness;
///     lacks = [SessionExpiry];
///     left_out = 12
/// }
/// ```
#[macro_export]
macro_rules! suite {
    (mod $module:ident; harness = $harness:ty; lacks = [$($lack:ident),* $(,)?]; left_out = $left_out:literal) => {
        $crate::__store_cases! { __timed_cases __tests [$module $harness, [$($lack)*] $left_out] }
    };
}

/// Like [`suite!`](crate::suite), with the cases of a [`Store`](lockkeeper::store::Store) only, and
/// without the cases that wait for the end of a lease. For another way to a store that passes the
/// whole suite: another protocol, another number of servers, another version.
#[macro_export]
macro_rules! way_suite {
    (mod $module:ident; harness = $harness:ty; lacks = [$($lack:ident),* $(,)?]; left_out = $left_out:literal) => {
        $crate::__store_cases! { __no_more_cases __tests [$module $harness, [$($lack)*] $left_out] }
    };
}

/// The cases of a store, with the needs of each case. This list is the only place that names the
/// cases of a store. `$then` is the macro that adds more cases, and `$callback` the macro that gets
/// all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($then:ident $callback:ident $args:tt) => {
        $crate::$then! {
            $callback $args,
            claim {
                a_free_lock_is_granted []
                a_held_lock_is_not_granted_again [Queue]
                the_same_claim_again_is_the_same_claim []
                a_waiting_claim_sent_again_keeps_its_place [Queue]
                a_grant_is_sticky [Queue]
                a_resend_that_finds_nothing_spends_the_id []
                a_try_leaves_no_trace []
                a_try_can_be_made_again []
                a_try_is_not_refused_for_another [ReadWrite]
                a_full_line_takes_nobody [Queue]
                dead_waiters_do_not_fill_the_line [Queue WaitersDieFirst]
                a_mutex_and_a_semaphore_do_not_mix [Weighted]
                a_reader_and_a_semaphore_do_not_mix [Weighted]
                a_lower_epoch_is_refused [Queue]
                the_holder_is_shown_to_who_is_turned_away []
                a_client_does_not_share_with_itself [Queue]
                answers_have_the_ttl_that_is_kept []
                a_waiter_keeps_the_ttl_of_its_first_request [Queue]
                the_ttl_of_answers_is_without_the_lock_delay [LockDelay]
            }
            line {
                the_lock_is_handed_on_in_order [Queue]
                nobody_overtakes_at_the_hand_off [Queue]
                a_waiter_may_leave_from_the_middle [Queue]
                it_shows_what_is_there [Queue]
                an_empty_line_shows_nobody []
                looking_changes_nothing [Queue]
                the_revision_changes_with_the_line [Queue]
            }
            renew {
                a_holder_learns_that_it_holds []
                a_waiter_learns_that_it_waits [Queue]
                a_grantee_learns_that_it_holds [Queue]
                a_holder_lives_on_renewals []
                a_waiter_lives_on_renewals [Queue]
                a_renewal_never_creates_a_claim []
                a_renewal_never_revives_what_was_withdrawn []
                a_renewal_never_revives_what_expired []
                what_is_in_flight_is_unknown []
                each_claim_is_answered_in_order [Queue]
                only_what_is_listed_is_renewed [PerClaimExpiry]
                a_session_without_claims_can_be_renewed []
                a_healthy_session_proves_nothing []
            }
            withdraw {
                a_release_frees_the_lock []
                a_second_withdrawal_does_nothing [Queue]
                only_the_id_that_is_named_is_removed [Queue]
                a_dead_holders_withdrawal_does_nothing []
                a_late_copy_of_a_released_claim_is_gone []
                a_late_copy_of_a_waiting_claim_is_gone [Queue]
                a_claim_after_its_withdrawal_is_gone []
                a_tombstone_is_one_ids []
                a_tombstone_lasts_for_its_time [VirtualTime PerClaimExpiry]
                a_release_wakes_all_who_can_go_on [Queue ReadWrite]
                a_waiter_that_leaves_lets_others_go_on [Queue ReadWrite]
            }
            wait {
                a_hand_off_wakes_the_next [Queue]
                a_grant_before_the_wait_is_not_missed [Queue]
                a_hand_off_grants_nobody_else [Queue]
                a_wait_ends_with_its_time [Queue]
                the_wait_of_a_removed_claim_ends [Queue]
                a_watcher_sees_every_change [Queue]
                a_change_before_the_watch_is_not_missed []
                a_wait_can_be_dropped [Queue]
                each_waiter_learns_of_its_own_grant [Queue]
                a_claim_sent_again_elsewhere_is_woken_there [Queue Detached]
                no_other_client_takes_a_wake_up_away [Queue Detached]
            }
            session {
                closing_frees_everything [Queue]
                closing_twice_is_fine []
                other_sessions_are_left_alone [Queue]
                a_connection_may_have_two_sessions []
                an_unknown_session_is_lost [SessionExpiry]
                a_closed_session_is_lost [SessionExpiry]
                an_expired_session_is_lost [SessionExpiry]
                leftovers_are_removed [Queue SessionExpiry]
                the_same_id_is_the_same_session []
                a_closed_session_is_not_opened_again []
                a_closed_session_is_remembered_for_its_time [VirtualTime PerClaimExpiry]
                other_durations_are_refused [SessionExpiry]
                a_tombstone_outlives_a_close []
                the_granted_ttl_is_in_range []
                what_is_out_of_range_is_refused []
            }
            sharing {
                two_clients_open_one_session [Detached]
                a_claim_is_renewed_through_another_client [Queue Detached]
                a_client_claims_in_the_session_of_another [Queue Detached]
                a_claim_goes_on_waiting_through_another_client [Queue Detached]
                a_close_through_another_client_frees_what_it_lists [Queue Detached]
                a_close_through_another_client_frees_everything [Queue Detached SessionExpiry]
                a_session_is_closed_for_all_clients [Detached]
                a_crash_of_the_opener_ends_nothing [Detached]
                a_detached_session_is_not_opened_as_another [Detached SessionExpiry]
                a_claim_sent_again_with_other_numbers_stays_as_it_is [Queue Detached ReadWrite]
                what_is_kept_is_not_replaced_through_another_client [Detached MinHold]
                what_is_broken_is_not_replaced_through_another_client [Detached Admin]
                a_claim_is_replaced_through_another_client [Detached MinHold]
                a_close_through_another_client_keeps_a_minimum_hold [Detached MinHold]
            }
            token {
                they_are_in_range []
                they_rise_over_releases []
                they_rise_along_the_line [Queue]
                they_rise_over_expiry []
                they_rise_over_a_close []
                they_rise_over_a_break [Admin]
                one_claim_has_one_token [Queue]
                readers_have_tokens_of_their_own [Queue ReadWrite]
                the_last_one_is_remembered []
            }
            weights {
                readers_share [ReadWrite]
                a_writer_is_alone [ReadWrite]
                a_writer_is_not_starved [Queue ReadWrite]
                a_try_does_not_overtake [Queue ReadWrite]
                permits_are_counted [Queue Weighted]
                a_large_claim_holds_up_smaller_ones [Queue Weighted]
                a_release_of_many_permits_lets_many_in [Queue Weighted]
                the_number_ahead_counts_everybody [Queue Weighted]
                a_lone_reader_can_be_replaced [ReadWrite]
                a_replacement_is_of_the_same_kind [Weighted]
                a_reader_in_company_is_not_replaced [ReadWrite]
                a_reader_before_a_waiter_is_not_replaced [Queue ReadWrite]
                a_broken_reader_is_not_replaced [Admin ReadWrite]
            }
            sizes {
                a_larger_number_counts_when_the_smaller_has_left [Queue Weighted]
                a_smaller_number_waits_until_it_is_kept_to [Queue Weighted]
                a_larger_number_behind_lifts_no_limit [Queue Weighted]
                a_small_number_at_the_head_is_not_overtaken [Queue Weighted]
                a_small_number_that_gives_up_lets_others_in [Queue Weighted]
                a_small_number_that_dies_waiting_lets_others_in [Queue Weighted WaitersDieFirst]
                a_small_number_that_leaves_lets_many_in [Queue Weighted]
                a_small_number_leaves_with_its_holder [Queue Weighted]
                a_small_number_dies_with_its_holder [Queue Weighted]
                a_try_keeps_to_everybodys_number [Weighted]
                what_is_granted_stays_granted [Queue Weighted]
                the_number_that_counts_is_shown [Queue Weighted]
                a_replacement_brings_its_own_number [Weighted]
            }
            amend {
                a_downgrade_lets_readers_in [Amend Queue ReadWrite]
                a_downgrade_twice_is_one [Amend ReadWrite]
                permits_that_are_given_back_let_others_in [Amend Queue Weighted]
                what_was_lowered_is_not_raised [Amend Queue Weighted]
                a_waiter_is_not_downgraded [Amend Queue ReadWrite]
                what_is_not_there_is_not_changed [Amend]
                a_dead_claim_is_not_changed [Amend]
                a_value_is_shown_to_everybody [Amend Queue]
                a_change_is_reported [Amend]
                a_late_copy_of_an_older_change_changes_nothing [Amend]
                a_late_copy_through_another_client_changes_nothing [Amend Detached]
                changes_of_all_kinds_are_numbered_together [Amend ReadWrite]
                a_minimum_hold_is_numbered_too [Amend MinHold]
                the_changes_of_a_replacement_are_numbered_from_the_beginning [Amend ReadWrite]
            }
            names {
                near_collisions_are_different_locks []
                the_longest_names_work []
                they_are_listed_as_given [Admin]
            }
            admin {
                names_are_sorted_and_limited [Admin]
                only_names_in_use_are_listed [Admin]
                a_list_shows_what_a_look_shows [Admin Queue]
                names_come_in_pages [Admin]
                a_listing_in_pages_misses_nothing_that_stays [Admin]
                a_mark_refuses_renewals_and_shortens_nothing [Admin Queue]
                a_marked_claim_cannot_be_sent_again [Admin Queue]
                a_marked_claim_can_be_changed [Admin Amend]
                a_marked_holder_can_release [Admin Queue]
                a_removal_frees_the_lock_at_once [Admin Queue]
                a_waiter_can_be_removed_by_its_hash [Admin Queue]
                what_is_not_there_is_not_broken [Admin Queue]
                a_listing_never_shows_an_id [Queue]
                asking_for_the_lock_breaks_nothing [Admin]
            }
            identity {
                all_clients_see_one_id []
            }
        }
    };
}

/// The cases of a store that wait for the end of a lease, or take long. The given cases come before
/// them.
#[doc(hidden)]
#[macro_export]
macro_rules! __timed_cases {
    ($callback:ident $args:tt, $($before:tt)*) => {
        $crate::__keeper_cases! {
            $callback $args,
            $($before)*
            expiry {
                a_silent_holder_loses_the_lock [Queue]
                a_dead_claim_does_not_learn_that_it_holds []
                a_dead_holder_is_in_nobodys_way []
                the_lock_delay_is_kept [Queue LockDelay]
                a_release_ends_the_lock_delay [LockDelay]
                a_resent_claim_starts_its_ttl_again [PerClaimExpiry]
                a_resent_waiting_claim_starts_its_ttl_again [Queue PerClaimExpiry]
                a_silent_waiter_leaves_the_line [Queue WaitersDieFirst]
                a_dead_waiter_at_the_head_is_passed_by [Queue WaitersDieFirst]
                a_dead_waiter_in_the_middle_is_passed_by [Queue WaitersDieFirst]
                a_dead_waiter_is_not_revived [Queue WaitersDieFirst]
                who_finds_a_dead_holder_wakes_the_others [Queue ReadWrite]
                a_pushed_grant_gives_no_new_time [Queue WaitersDieFirst]
                a_renewed_grantee_has_a_holders_ttl [Queue WaitersDieFirst]
                a_crash_frees_what_was_held [Queue]
                a_longer_ttl_of_a_later_copy_does_not_count [Queue]
            }
            lives {
                a_repeated_opening_starts_its_life_again [SessionExpiry]
                an_expired_session_comes_back_without_its_claims [SessionExpiry]
                a_tombstone_outlives_the_life_of_its_session [SessionExpiry]
                a_claim_lives_on_another_clients_renewals [Detached]
                a_waiter_lives_on_another_clients_renewals [Queue Detached WaitersDieFirst]
                two_lists_lose_nothing [Detached SessionExpiry]
                what_no_client_lists_is_removed [Queue Detached SessionExpiry]
            }
            hold {
                what_was_released_is_kept [MinHold]
                what_was_kept_is_the_next_ones [MinHold Queue]
                who_waits_gets_it_when_it_is_over [MinHold Queue]
                a_dead_holders_lock_is_kept [MinHold Queue]
                a_crashed_holders_lock_is_kept [MinHold Queue]
                a_closed_session_leaves_it [MinHold]
                a_late_release_is_immediate [MinHold]
                it_begins_when_it_is_asked_for [MinHold Queue]
                a_waiter_has_none [MinHold Queue]
                what_is_kept_is_nobodys [MinHold]
                a_reader_keeps_its_share [MinHold ReadWrite]
                permits_are_kept_one_by_one [MinHold Weighted]
                permits_that_were_kept_let_the_next_in [MinHold Queue Weighted]
                a_replacement_inherits_it [MinHold ReadWrite]
                what_was_lowered_is_kept_as_it_is [MinHold ReadWrite]
                what_is_kept_is_not_replaced [MinHold ReadWrite]
                what_is_broken_gets_none [MinHold Admin Queue]
                a_break_ends_it [MinHold Admin Queue]
            }
            model {
                readers_and_writers [Queue Weighted Amend]
                permits [Queue Weighted Amend]
                permits_of_changing_size [Queue Weighted Amend]
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __no_more_cases {
    ($callback:ident $args:tt, $($cases:tt)*) => {
        $crate::$callback! { $args $($cases)* }
    };
}

/// All cases as values, for `testing::case`.
#[doc(hidden)]
#[macro_export]
macro_rules! __entries {
    ([] $($group:ident { $($case:ident [$($need:ident)*])* })*) => {
        &[$($(Entry {
            name: concat!(stringify!($group), "::", stringify!($case)),
            needs: &[$(Need::$need),*],
            body: |case| Box::pin(cases::$group::$case(case)),
        },)*)*]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (
        [$module:ident $harness:ty, [$($lack:ident)*] $left_out:literal]
        $($group:ident { $($case:ident [$($need:ident)*])* })*
    ) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            type Subject = $harness;

            $crate::__unless_lacking! { ($) [$($lack)*] }

            $(mod $group {
                $(unless_lacking! { $group $case [$($need)*] })*
            })*

            #[test]
            fn what_is_left_out_is_counted() {
                let cases = &[$($(concat!(stringify!($group), "::", stringify!($case)),)*)*];
                $crate::check_left_out::<Subject>(cases, &[$($crate::Need::$lack),*], $left_out);
            }
        }
    };
}

/// Makes the macro that makes a test of a case, or nothing if the case needs a capability that the
/// store lacks. `$d` is a dollar sign.
#[doc(hidden)]
#[macro_export]
macro_rules! __unless_lacking {
    (($d:tt) [$($lack:ident)*]) => {
        macro_rules! unless_lacking {
            $(($d group:ident $d case:ident [$lack $d($d need:ident)*]) => {};)*
            ($d group:ident $d case:ident []) => {
                #[test]
                fn $d case() {
                    $crate::run_case::<super::Subject>(concat!(stringify!($d group), "::", stringify!($d case)));
                }
            };
            ($d group:ident $d case:ident [$d met:ident $d($d need:ident)*]) => {
                unless_lacking! { $d group $d case [$d($d need)*] }
            };
        }
    };
}
