//! What the fault suite does to all servers of a store happens to one server of three. The cases in
//! which a lock is lost are left out, since the other two servers keep it.

lockkeeper_live::some_faults! {
    store = lockkeeper_live::RedlockServer<1>;
    left_out = 32;
    outages {
        a_restart_on_all_data_keeps_the_lock_and_the_line
        a_server_stopped_for_less_than_the_ttl_loses_no_lock
        tokens_rise_over_restarts_on_all_data
    }
    clocks {
        a_clock_jump_shorter_than_the_ttl_loses_no_lock
        a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise
        a_clock_that_goes_back_does_not_prolong_a_dead_lock
        tokens_rise_while_the_clock_goes_to_and_fro
        a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up
    }
}
