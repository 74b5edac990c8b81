//! The contract suite on the store of the example `custom_store`: what it shows is a right one.

use std::sync::Arc;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::testing::{Crash, Harness, Lives, Time};
use lockkeeper::time::Clock;

#[path = "../../examples/custom_store.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod example;

lockkeeper::suite! {
    mod table;
    harness = super::TableHarness;
    left_out = [
        claim::a_try_is_not_refused_for_another,
        claim::a_mutex_and_a_semaphore_do_not_mix,
        claim::a_reader_and_a_semaphore_do_not_mix,
        life::who_finds_a_dead_holder_wakes_the_others,
        hold::what_was_released_is_kept,
        hold::what_was_kept_is_the_next_ones,
        hold::who_waits_gets_it_when_it_is_over,
        hold::a_dead_holders_lock_is_kept,
        hold::a_crashed_holders_lock_is_kept,
        hold::a_closed_session_leaves_it,
        hold::a_late_release_is_immediate,
        hold::it_begins_when_it_is_asked_for,
        hold::a_waiter_has_none,
        hold::what_is_kept_is_nobodys,
        hold::a_reader_keeps_its_share,
        hold::permits_are_kept_one_by_one,
        hold::permits_that_were_kept_let_the_next_in,
        hold::a_replacement_inherits_it,
        hold::what_was_lowered_is_kept_as_it_is,
        hold::what_is_kept_is_not_replaced,
        hold::what_is_broken_gets_none,
        hold::a_break_ends_it,
        withdraw::a_release_wakes_all_who_can_go_on,
        withdraw::a_waiter_that_leaves_lets_others_go_on,
        session::an_unknown_session_is_lost,
        session::a_closed_session_is_lost,
        session::an_expired_session_is_lost,
        session::leftovers_are_removed,
        token::they_rise_over_a_break,
        token::readers_have_tokens_of_their_own,
        weights::readers_share,
        weights::a_writer_is_alone,
        weights::a_writer_is_not_starved,
        weights::a_try_does_not_overtake,
        weights::permits_are_counted,
        weights::a_large_claim_holds_up_smaller_ones,
        weights::a_release_of_many_permits_lets_many_in,
        weights::the_number_ahead_counts_everybody,
        weights::a_lone_reader_can_be_replaced,
        weights::a_replacement_is_of_the_same_kind,
        weights::a_reader_in_company_is_not_replaced,
        weights::a_reader_before_a_waiter_is_not_replaced,
        weights::a_broken_reader_is_not_replaced,
        sizes::a_larger_number_counts_when_the_smaller_has_left,
        sizes::a_smaller_number_waits_until_it_is_kept_to,
        sizes::a_larger_number_behind_lifts_no_limit,
        sizes::a_small_number_at_the_head_is_not_overtaken,
        sizes::a_small_number_that_gives_up_lets_others_in,
        sizes::a_small_number_that_dies_waiting_lets_others_in,
        sizes::a_small_number_that_leaves_lets_many_in,
        sizes::a_small_number_leaves_with_its_holder,
        sizes::a_small_number_dies_with_its_holder,
        sizes::a_try_keeps_to_everybodys_number,
        sizes::what_is_granted_stays_granted,
        sizes::the_number_that_counts_is_shown,
        sizes::a_replacement_brings_its_own_number,
        amend::a_downgrade_lets_readers_in,
        amend::a_downgrade_twice_is_one,
        amend::permits_that_are_given_back_let_others_in,
        amend::what_was_lowered_is_not_raised,
        amend::a_waiter_is_not_downgraded,
        amend::what_is_not_there_is_not_changed,
        amend::a_dead_claim_is_not_changed,
        amend::a_value_is_shown_to_everybody,
        amend::a_change_is_heard_of,
        names::they_are_listed_as_given,
        admin::names_are_sorted_and_limited,
        admin::only_names_in_use_are_listed,
        admin::a_list_shows_what_a_look_shows,
        admin::a_mark_refuses_renewals_and_shortens_nothing,
        admin::a_marked_claim_cannot_be_sent_again,
        admin::a_marked_claim_can_be_changed,
        admin::a_marked_holder_can_release,
        admin::a_removal_frees_the_lock_at_once,
        admin::a_waiter_can_be_removed_by_its_hash,
        admin::what_is_not_there_is_not_broken,
        admin::asking_for_the_lock_breaks_nothing,
        model::readers_and_writers,
        model::permits,
        model::permits_of_changing_size,
        mutex::a_prefix_and_a_name_are_one_name,
        multi::the_loss_of_one_is_the_loss_of_all,
        multi::what_is_lost_while_others_are_waited_for_is_acquired_again,
        multi::each_is_held_in_its_own_mode,
        multi::a_name_counts_once_in_its_strongest_mode,
        multi::mixed_modes_never_wait_for_each_other,
        rw_lock::readers_hold_it_together_and_writers_alone,
        rw_lock::neither_readers_nor_writers_starve,
        rw_lock::a_wait_ends_with_its_time,
        rw_lock::a_downgrade_lets_readers_in_and_no_writer,
        rw_lock::what_cannot_be_downgraded_comes_back,
        rw_lock::a_lone_reader_becomes_the_writer,
        rw_lock::a_reader_in_company_stays_a_reader,
        rw_lock::two_upgraders_stay_readers_until_one_gives_way,
        rw_lock::an_upgrade_without_an_answer_ends_both,
        rw_lock::a_fixed_lease_is_upgraded,
        rw_lock::max_hold_outlives_an_upgrade,
        rw_lock::waiting_behind_oneself_is_refused,
        election::a_proclaimed_value_is_shown,
        election::an_observer_hears_of_leaders_and_vacancies,
        election::a_broken_leader_is_told,
        election::an_election_is_the_mutex_of_its_name,
        semaphore::there_are_so_many_permits_and_no_more,
        semaphore::permits_are_given_back_one_by_one,
        semaphore::an_adopted_guard_gives_back_all_or_nothing,
        semaphore::who_wants_many_is_not_overtaken,
        semaphore::permits_are_leased_and_renewed,
        semaphore::the_number_of_permits_may_change_while_it_is_in_use,
        semaphore::another_kind_of_lock_is_refused,
        semaphore::impossible_numbers_are_refused,
        semaphore::unfair_ones_wait_beside_the_line,
        semaphore::many_tasks_share_few_permits,
        semaphore::waiting_behind_oneself_is_refused,
        detached::who_broke_it_is_told_to_who_renews,
        tasks::a_place_in_line_is_inherited,
        loss::a_broken_lock_tells_who_and_why,
        loss::a_removed_claim_is_found_out,
        breaking::a_mark_is_told_before_the_next_has_the_lock,
        breaking::a_removal_gives_the_lock_to_the_next_at_once,
        breaking::a_removal_of_what_was_marked_is_told,
        breaking::a_token_names_its_holder_and_nobody_else,
        breaking::a_waiter_that_is_broken_goes_to_the_end,
        breaking::who_is_not_there_is_not_broken,
        breaking::what_can_never_be_broken_is_refused,
        asking::a_holder_hears_who_asks_and_why,
        asking::a_request_before_the_wait_is_not_missed,
        asking::the_next_holder_is_not_asked,
        asking::all_who_hold_are_asked,
        asking::a_leader_and_a_converted_guard_are_asked,
        asking::a_request_while_the_holder_is_cut_off_is_heard_later,
        asking::who_has_adopted_it_is_asked,
        min_hold::a_release_leaves_the_rest_to_the_store,
        min_hold::a_drop_and_a_shutdown_leave_it,
        min_hold::it_costs_nothing_once_it_is_over,
        min_hold::who_gives_up_keeps_nothing,
        min_hold::each_task_has_its_own,
        min_hold::a_multi_lock_that_gets_not_all_keeps_none,
        min_hold::an_entry_of_its_owner_has_it,
        min_hold::a_conversion_keeps_it,
        min_hold::an_attempt_never_waits_for_what_it_has_kept_itself,
        min_hold::a_multi_lock_never_waits_for_a_part_that_it_has_kept,
        min_hold::who_is_dropped_before_its_answer_keeps_nothing,
        min_hold::nobody_leads_while_it_lasts,
        cancel::a_minimum_hold_can_be_dropped_at_any_poll,
        cancel::an_upgrade_can_be_dropped_at_any_poll,
        cancel::a_downgrade_can_be_dropped_at_any_poll,
    ]
}

/// On virtual time.
#[derive(Debug)]
struct TableHarness(example::Table, Clock);

impl Harness for TableHarness {
    const TIME: Time = Time::Virtual;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        let clock = Clock::tokio();
        Self(example::Table::new(clock.clone()), clock)
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        self.1.clone()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn weather(&self) -> Faults {
        Faults::none()
    }

    fn short(&self) -> Lives {
        Lives::quick()
    }
}
