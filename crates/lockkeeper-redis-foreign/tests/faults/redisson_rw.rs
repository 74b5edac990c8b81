//! The fault suite on `RReadWriteLock`. `RLock` has the same messages and fewer keys, so the suite
//! stands for both.

lockkeeper_live::fault_suite! {
    store = lockkeeper_live::ForeignServer<lockkeeper_live::contract::RwLayout>;
    lacks = [Queue, Registers];
    left_out = 6
}
