//! A layout of another library, and a Redlock, on Valkey.

use lockkeeper_live::contract::{Moved, On, RwLayoutOnValkey, ThreeValkeys};
use lockkeeper_testing::Crowded;

lockkeeper_testing::suite! {
    mod redisson_rw_on_valkey;
    harness = Crowded<Moved<RwLayoutOnValkey>>;
    lacks = [MinHold, Queue, SessionExpiry, VirtualTime, Weighted];
    left_out = 183
}

lockkeeper_testing::suite! {
    mod redlock_on_valkey;
    harness = Crowded<On<ThreeValkeys>>;
    lacks = [Amend, Detached, MinHold, Queue, SessionExpiry, VirtualTime, Weighted];
    left_out = 216
}
