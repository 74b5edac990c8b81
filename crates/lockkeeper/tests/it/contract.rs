//! The contract of a store, on every store and every layer.

use lockkeeper::testing::MemoryHarness;

lockkeeper::suite! {
    mod memory_store;
    harness = MemoryHarness;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}
