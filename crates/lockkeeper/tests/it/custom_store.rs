//! The contract suite on the store of the example `custom_store`, which shows that the example is
//! right.

use std::sync::Arc;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper_testing::{Crash, Harness, Time, Ttls};

#[path = "../../examples/custom_store.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program")]
mod example;

lockkeeper_testing::suite! {
    mod table;
    harness = super::TableHarness;
    lacks = [Admin, Amend, MinHold, ReadWrite, SessionExpiry, Weighted];
    left_out = 166
}

/// The table of the example on virtual time.
#[derive(Debug)]
struct TableHarness(example::Table, Clock);

impl Harness for TableHarness {
    const TIME: Time = Time::Virtual;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        let clock = Clock::tokio();
        Self(example::Table::new(clock.clone()), clock)
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        self.1.clone()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }

    fn short(&self) -> Ttls {
        Ttls::quick()
    }
}
