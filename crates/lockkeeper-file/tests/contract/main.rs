//! The contract of a store, on files. These tests wait most of the time: many run at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod crowd;
mod histories;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{FileStore, KeeperBuilder};
use lockkeeper_testing::{Crash, Crowded, Harness, InAStorm, Through, Time, Ttls, Wrap};
use tempfile::TempDir;

use self::crowd::FileAmongOthers;

macro_rules! whole_suite {
    ($($module:ident: $harness:ty;)*) => {$(lockkeeper_testing::suite! {
        mod $module;
        harness = $harness;
        lacks = [PerClaimExpiry, VirtualTime];
        left_out = 5
    })*};
}

whole_suite! {
    file_store: FileHarness;
    file_store_crowded: Crowded<FileAmongOthers>;
}

lockkeeper_testing::keeper_suite! {
    mod file_store_on_a_thread_of_its_own;
    harness = Through<FileHarness, OnAThreadOfItsOwn>;
    lacks = [];
    left_out = 0
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
