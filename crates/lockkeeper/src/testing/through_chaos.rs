//! The suite on a store behind [`Chaos`]: with no faults it changes nothing.

use std::sync::Arc;

use super::{Crash, Harness, Lives, Time};
use crate::layer::{Chaos, Faults};
use crate::store::Store;
use crate::time::Clock;

/// Another harness's store, with a [`Chaos`] at rest before each client.
#[derive(Debug)]
pub struct ThroughChaos<H>(H);

impl<H: Harness> Harness for ThroughChaos<H> {
    const TIME: Time = H::TIME;
    const ON_CRASH: Crash = H::ON_CRASH;
    const WAITERS_DIE_FIRST: bool = H::WAITERS_DIE_FIRST;

    async fn start() -> Self {
        Self(H::start().await)
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(Chaos::new(self.0.client().await, self.0.clock()))
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The wrapper holds the only other handle, so the store below sees its client go.
        drop(client);
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn prefix(&self) -> String {
        self.0.prefix()
    }

    fn short(&self) -> Lives {
        self.0.short()
    }

    fn weather(&self) -> Faults {
        self.0.weather()
    }
}
