//! The cases of the fault suite, and the macros that make tests of them.

use std::collections::BTreeSet;

use crate::server::{LiveStore, Need};

/// Makes the module `every_store` of a program: one test for each case of the fault suite.
///
/// `store` is a type that implements [`LiveStore`], by a path that is valid in every module.
/// `lacks` names every [`Need`] of cases that the store does not have. `left_out` counts the cases
/// that need anything of this list. One more test asserts that both are true.
#[macro_export]
macro_rules! fault_suite {
    (store = $store:ty; lacks = [$($lack:ident),* $(,)?]; left_out = $left_out:literal) => {
        $crate::__fault_cases! { [$store, [$($lack)*] $left_out] }
    };
}

/// Makes tests of some cases of the fault suite, each in a module of its group. It is for a store
/// whose code differs from that of a store with the whole suite only in what these cases concern.
///
/// `left_out` counts the cases that are not chosen. One more test asserts that this is so.
#[macro_export]
macro_rules! some_faults {
    (store = $store:ty; left_out = $left_out:literal; $($group:ident { $($case:ident)* })*) => {
        type Subject = $store;

        $(mod $group {
            $(
                #[test]
                fn $case() {
                    $crate::faults::run($crate::faults::$group::$case::<super::Subject>());
                }
            )*
        })*

        #[test]
        fn what_is_left_out_is_counted() {
            $crate::faults::check_chosen(&[$($(stringify!($case),)*)*], $left_out);
        }
    };
}

/// The cases, with the needs of each case. This list is the only place that names them.
#[doc(hidden)]
#[macro_export]
macro_rules! __fault_cases {
    ($args:tt) => {
        $crate::__fault_tests! {
            $args
            worker {
                a_worker_does_as_it_is_ordered []
            }
            clients {
                a_stopped_holder_has_lost_at_its_first_look []
                a_holder_that_was_stopped_for_less_than_its_ttl_still_holds []
                a_stopped_waiter_is_passed_by []
                a_killed_holder_costs_its_ttl_at_most []
                a_killed_holders_delay_runs_out_first []
                a_dead_waiter_at_the_head_costs_a_waiters_ttl [Queue]
                tokens_rise_over_processes_that_end_in_any_way []
            }
            handles {
                a_detached_lock_is_handed_from_process_to_process [Detached]
                a_detached_lock_without_renewals_ends_with_its_ttl [Detached]
            }
            kills {
                histories_of_killed_processes_pass_and_leave_no_lock []
            }
            registers {
                several_processes_lose_no_increment [Registers]
                a_killed_process_leaves_whole_writes [Registers]
                locks_and_registers_share_a_store [Registers]
                a_write_that_a_stopped_server_did_not_answer_is_settled_later [Server Registers]
            }
            sharing {
                a_session_is_opened_again_after_a_claim_was_taken_over [Detached]
                a_request_to_let_go_stays_with_a_claim_that_is_taken_over [Detached]
                a_claim_comes_after_the_release_that_the_same_client_has_begun_before [Detached]
                durations_with_nanoseconds_are_the_same_for_another_client [Detached]
            }
            identity {
                clients_that_ask_first_get_one_id_and_another_id_after_a_wipe [Server]
            }
            outages {
                a_restart_on_all_data_keeps_the_lock_and_the_line [Server]
                a_restart_beside_foreign_data_keeps_the_lock_and_the_line [Server]
                tokens_rise_over_restarts_on_all_data [Server]
                a_server_stopped_for_less_than_the_ttl_loses_no_lock [Server]
                after_a_server_stop_longer_than_the_ttl_the_lock_stays_lost [Server]
            }
            silence {
                a_server_that_receives_nothing_costs_only_the_lock [Server]
                a_server_whose_answers_are_lost_costs_only_the_lock [Server]
                a_server_behind_a_dead_network_costs_the_lock_and_nothing_else [Server]
            }
            reconnects {
                held_locks_are_renewed_at_once_after_a_reconnection [Server]
                a_request_during_an_outage_is_received_after_the_reconnection [Server]
                a_request_that_the_network_swallows_is_received_after_the_reconnection [Server]
            }
            cuts {
                an_acquire_that_is_cut_at_any_step_succeeds_and_leaves_nothing_behind [Server]
            }
            lists {
                a_list_of_many_locks_takes_few_requests [Server]
            }
            clocks {
                k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder [Server Clock]
                a_clock_jump_shorter_than_the_ttl_loses_no_lock [Server Clock]
                a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise [Server Clock]
                a_clock_that_goes_back_does_not_prolong_a_dead_lock [Server Clock]
                a_clock_that_goes_back_does_not_prolong_dead_claims [Server Clock Queue]
                tokens_rise_while_the_clock_goes_to_and_fro [Server Clock]
                a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up [Server Clock]
            }
        }
    };
}

/// Makes a module with a test for each of these cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __fault_tests {
    (names $($group:ident { $($case:ident [$($need:ident)*])* })*) => {
        &[$($(stringify!($case),)*)*]
    };
    (
        [$store:ty, [$($lack:ident)*] $left_out:literal]
        $($group:ident { $($case:ident [$($need:ident)*])* })*
    ) => {
        mod every_store {
            type Subject = $store;

            $crate::__fault_unless_lacking! { ($) [$($lack)*] }

            $(mod $group {
                $(unless_lacking! { $group $case [$($need)*] })*
            })*

            #[test]
            fn what_is_left_out_is_counted() {
                use $crate::Need;
                let cases: &[&[Need]] = &[$($(&[$(Need::$need),*],)*)*];
                $crate::faults::check_left_out::<Subject>(cases, &[$(Need::$lack),*], $left_out);
            }
        }
    };
}

/// Makes the macro that makes a test of a case, or nothing if the case needs what the store lacks.
/// `$d` is a dollar sign.
#[doc(hidden)]
#[macro_export]
macro_rules! __fault_unless_lacking {
    (($d:tt) [$($lack:ident)*]) => {
        macro_rules! unless_lacking {
            $(($d group:ident $d case:ident [$lack $d($d need:ident)*]) => {};)*
            ($d group:ident $d case:ident []) => {
                #[test]
                fn $d case() {
                    $crate::faults::run($crate::faults::$d group::$d case::<super::Subject>());
                }
            };
            ($d group:ident $d case:ident [$d met:ident $d($d need:ident)*]) => {
                unless_lacking! { $d group $d case [$d($d need)*] }
            };
        }
    };
}

/// The names of all cases.
const CASES: &[&str] = __fault_cases!(names);

/// Asserts that so many cases are not among the chosen ones.
pub fn check_chosen(chosen: &[&str], left_out: usize) {
    let chosen: BTreeSet<_> = chosen.iter().collect();
    let count = CASES.iter().filter(|case| !chosen.contains(case)).count();
    eprintln!("left out: {count} of {} cases", CASES.len());
    assert_eq!(count, left_out, "the number under `left_out` is another one");
}

/// Asserts that the store has every need of the suite but these, and that so many cases need them.
pub fn check_left_out<S: LiveStore>(cases: &[&[Need]], lacks: &[Need], left_out: usize) {
    let needs: BTreeSet<Need> = cases.iter().copied().flatten().copied().collect();
    let missing: BTreeSet<Need> = needs.into_iter().filter(|need| !S::CAN.contains(need)).collect();
    assert_eq!(
        missing,
        lacks.iter().copied().collect(),
        "what this store has not is to be named under `lacks`"
    );
    let count = cases.iter().filter(|needs| needs.iter().any(|need| lacks.contains(need))).count();
    // `cargo xtask test` adds these numbers.
    eprintln!("left out: {count} of {} cases", cases.len());
    assert_eq!(count, left_out, "the number under `left_out` is another one");
}
