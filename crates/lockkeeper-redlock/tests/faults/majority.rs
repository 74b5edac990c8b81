//! What the fault suite does to all servers of a store happens to two servers of three. The third
//! server goes on, and is no majority.

lockkeeper_live::some_faults! {
    store = lockkeeper_live::RedlockServer<2>;
    left_out = 26;
    outages {
        a_restart_on_all_data_keeps_the_lock_and_the_line
        tokens_rise_over_restarts_on_all_data
        a_server_stopped_for_less_than_the_ttl_loses_no_lock
        after_a_server_stop_longer_than_the_ttl_the_lock_stays_lost
    }
    silence {
        a_server_that_receives_nothing_costs_only_the_lock
        a_server_whose_answers_are_lost_costs_only_the_lock
        a_server_behind_a_dead_network_costs_the_lock_and_nothing_else
    }
    reconnects {
        a_request_during_an_outage_is_received_after_the_reconnection
        a_request_that_the_network_swallows_is_received_after_the_reconnection
    }
    clocks {
        k3_a_clock_jump_loses_the_lock_and_the_fence_refuses_the_old_holder
        a_clock_that_goes_back_loses_no_lock_and_tokens_still_rise
        a_clock_that_goes_back_does_not_prolong_a_dead_lock
        tokens_rise_while_the_clock_goes_to_and_fro
        a_token_ahead_of_the_clock_is_remembered_until_the_clock_catches_up
    }
}
