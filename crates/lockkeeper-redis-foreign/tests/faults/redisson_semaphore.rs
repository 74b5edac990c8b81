//! What faults do to `RPermitExpirableSemaphore`, where that can differ from the other layouts: the
//! permits are numbers beside a clock in a sorted set, and Redis ends none of them.

lockkeeper_live::some_faults! {
    store = lockkeeper_live::ForeignServer<lockkeeper_live::contract::OnePermitLayout>;
    left_out = 28;
    worker {
        a_worker_does_as_it_is_ordered
    }
    clients {
        a_killed_holder_costs_its_ttl_at_most
        a_stopped_holder_has_lost_at_its_first_look
    }
    outages {
        a_restart_beside_foreign_data_keeps_the_lock_and_the_line
        after_a_server_stop_longer_than_the_ttl_the_lock_stays_lost
    }
    silence {
        a_server_whose_answers_are_lost_costs_only_the_lock
    }
    cuts {
        an_acquire_that_is_cut_at_any_step_succeeds_and_leaves_nothing_behind
    }
    clocks {
        k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder
        a_clock_jump_shorter_than_the_ttl_loses_no_lock
        a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise
        a_clock_that_goes_back_does_not_prolong_a_dead_lock
        tokens_rise_while_the_clock_goes_to_and_fro
    }
}
