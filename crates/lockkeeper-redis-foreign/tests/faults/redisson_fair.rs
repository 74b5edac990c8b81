//! What faults do to `RFairLock`: it is the only one of these layouts with a queue.

lockkeeper_live::fault_suite! {
    store = lockkeeper_live::ForeignServer<lockkeeper_live::contract::FairLayout>;
    lacks = [Registers];
    left_out = 4
}
