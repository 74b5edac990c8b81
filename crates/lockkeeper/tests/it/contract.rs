//! The contract of a store, on every store and every layer.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::{Faults, Prefix, Traced};
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{FileStore, KeeperBuilder};
use lockkeeper_testing::wrong::Mutated;
use lockkeeper_testing::{AtRest, Crash, Crowded, Harness, InAStorm, MemoryHarness, Through, Time, Ttls, Wrap};
use tempfile::TempDir;

use crate::by_session::BySession;
use crate::crowd::FileAmongOthers;
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
    ($($module:ident: $harness:ty, [$($lack:ident),*];)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [PerClaimExpiry, $($lack),*];
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
    memory_store_by_session: Mutated<MemoryHarness, BySession>, [];
    file_store: FileHarness, [VirtualTime];
    file_store_crowded: Crowded<FileAmongOthers>, [VirtualTime];
    memory_store_by_session_under_a_prefix: Through<Mutated<MemoryHarness, BySession>, UnderAPrefix>, [];
}

lockkeeper_testing::keeper_suite! {
    mod file_store_on_a_thread_of_its_own;
    harness = Through<FileHarness, OnAThreadOfItsOwn>;
    lacks = [];
    left_out = 0
}

lockkeeper_testing::storm_suite! {
    mod memory_store_in_a_storm;
    harness = InAStorm<MemoryHarness>
}

lockkeeper_testing::storm_suite! {
    mod file_store_in_a_storm;
    harness = InAStorm<FileHarness>
}

/// The file store in a folder of its own. A dropped client ends like a killed process: its liveness
/// file is unlocked, and the client sends nothing.
pub(crate) struct FileHarness {
    folder: TempDir,
}

impl Harness for FileHarness {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Frees;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(FileStore::new(self.folder.path().join("locks.db")).open().await.unwrap())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn short(&self) -> Ttls {
        // A busy machine may pause a test or the disk for a second.
        Ttls { ttl: Duration::from_secs(2), wait_ttl: Duration::from_secs(1), ..Ttls::quick() }
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
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

/// Keepers whose engine has a thread of its own, on the store itself.
#[derive(Debug)]
struct OnAThreadOfItsOwn;

impl Wrap for OnAThreadOfItsOwn {
    fn wrap(client: Arc<dyn Store>, _clock: Clock) -> Arc<dyn Store> {
        client
    }

    fn set_up(builder: KeeperBuilder) -> KeeperBuilder {
        builder.dedicated_thread()
    }
}
