//! What faults do to `RFencedLock`, where that can differ from the other layouts: its tokens are a
//! counter, which has no clock. The lock itself is an `RLock`.

lockkeeper_live::some_faults! {
    store = lockkeeper_live::ForeignServer<lockkeeper_live::contract::FencedLayout>;
    left_out = 31;
    worker {
        a_worker_does_as_it_is_ordered
    }
    clients {
        tokens_rise_over_processes_that_end_in_any_way
    }
    outages {
        a_restart_beside_foreign_data_keeps_the_lock_and_the_line
        tokens_rise_over_restarts_on_all_data
    }
    clocks {
        k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder
        a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise
        a_clock_that_goes_back_does_not_prolong_a_dead_lock
        tokens_rise_while_the_clock_goes_to_and_fro
        a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up
    }
}
