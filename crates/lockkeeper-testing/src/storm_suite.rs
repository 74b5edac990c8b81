//! The cases of the suite under injected faults.

/// Like [`keeper_suite!`](crate::keeper_suite), without the cases that need a good connection. For
/// a store with all capabilities under faults, such as [`InAStorm`](crate::InAStorm).
#[macro_export]
macro_rules! storm_suite {
    (mod $module:ident; harness = $harness:ty) => {
        $crate::keeper_suite! {
            mod $module;
            harness = $harness;
            lacks = [NoFaults];
            left_out = 92
        }
    };
}
