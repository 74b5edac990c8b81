//! The contract of a store, on the store in memory and every layer.

use std::sync::Arc;

use lockkeeper::layer::{Prefix, Traced};
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper_testing::wrong::Mutated;
use lockkeeper_testing::{AtRest, InAStorm, MemoryHarness, Through, Wrap};

use crate::by_session::BySession;
use crate::spans;

/// Stores whose claims expire one by one: their sessions do not expire.
macro_rules! suite_of_claims {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [SessionExpiry];
        left_out = 12
    })*};
}

/// Stores whose claims live as long as their session.
macro_rules! suite_of_sessions {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [PerClaimExpiry];
        left_out = 5
    })*};
}

suite_of_claims! {
    memory_store: MemoryHarness;
    memory_store_through_chaos: Through<MemoryHarness, AtRest>;
    memory_store_under_a_prefix: Through<MemoryHarness, UnderAPrefix>;
    memory_store_traced: Through<MemoryHarness, Shown>;
}

suite_of_sessions! {
    memory_store_by_session: Mutated<MemoryHarness, BySession>;
    memory_store_by_session_under_a_prefix: Through<Mutated<MemoryHarness, BySession>, UnderAPrefix>;
}

lockkeeper_testing::storm_suite! {
    mod memory_store_in_a_storm;
    harness = InAStorm<MemoryHarness>
}

/// A prefix with special characters of file names, SQL, patterns and URLs.
const PREFIX: &str = "a%_*/é'{";

#[derive(Debug)]
struct UnderAPrefix;

impl Wrap for UnderAPrefix {
    const NAME_BYTES: usize = PREFIX.len();

    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        Arc::new(Prefix::new(client, PREFIX).unwrap())
    }
}

/// A traced store, with a subscriber that reads the spans.
#[derive(Debug)]
struct Shown;

impl Wrap for Shown {
    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        spans::watch();
        Arc::new(Traced::new(client))
    }
}
