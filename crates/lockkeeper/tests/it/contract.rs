//! The contract of a store, on every store and every layer.

use std::sync::Arc;

use lockkeeper::FileStore;
use lockkeeper::store::Store;
use lockkeeper::testing::wrong::Flawed;
use lockkeeper::testing::{Crash, Harness, Lives, MemoryHarness, ThroughChaos, Time};
use lockkeeper::time::Clock;
use tempfile::TempDir;

use crate::by_session::BySession;

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

lockkeeper::suite! {
    mod memory_store_through_chaos;
    harness = ThroughChaos<MemoryHarness>;
    left_out = [
        "session::an_unknown_session_is_lost",
        "session::a_closed_session_is_lost",
        "session::an_expired_session_is_lost",
        "session::leftovers_are_removed",
    ]
}

lockkeeper::suite! {
    mod memory_store_by_session;
    harness = Flawed<MemoryHarness, BySession>;
    left_out = [
        "life::a_resent_claim_starts_its_life_anew",
        "life::a_resent_waiting_claim_starts_its_life_anew",
        "renew::only_what_is_listed_is_renewed",
        "withdraw::a_tombstone_stands_for_its_time",
    ]
}

lockkeeper::suite! {
    mod file_store;
    harness = FileHarness;
    left_out = [
        "life::a_resent_claim_starts_its_life_anew",
        "life::a_resent_waiting_claim_starts_its_life_anew",
        "renew::only_what_is_listed_is_renewed",
        "withdraw::a_tombstone_stands_for_its_time",
    ]
}

/// The file store in a folder of its own. A client that is dropped ends as a process that is killed does: its
/// liveness file is unlocked, and nothing was said.
struct FileHarness {
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

    fn short(&self) -> Lives {
        Lives::quick()
    }
}
