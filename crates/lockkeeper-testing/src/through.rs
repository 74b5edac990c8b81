//! The suite on a store behind a layer: the layer must not change what the contract says.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Crash, Harness, ServerClock, Time, Ttls};
use lockkeeper::layer::{Chaos, Faults};
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{KeeperBuilder, LockName};

/// Puts a layer before the client of a store.
pub trait Wrap: Debug + Send + Sync + 'static {
    /// How many bytes of each name the layer needs for itself.
    const NAME_BYTES: usize = 0;

    /// Puts the layer before `client`. The result holds the only handle of `client`.
    fn wrap(client: Arc<dyn Store>, clock: Clock) -> Arc<dyn Store>;

    /// Adds settings to the keepers. The default adds none.
    fn set_up(builder: KeeperBuilder) -> KeeperBuilder {
        builder
    }
}

/// The store of another harness, with a layer before each client.
#[derive(Debug)]
pub struct Through<H, W>(H, PhantomData<W>);

/// A [`Chaos`] without faults: it changes nothing.
#[derive(Debug)]
pub struct AtRest;

impl Wrap for AtRest {
    fn wrap(client: Arc<dyn Store>, clock: Clock) -> Arc<dyn Store> {
        Arc::new(Chaos::new(client, clock))
    }
}

impl<H: Harness, W: Wrap> Harness for Through<H, W> {
    const TIME: Time = H::TIME;
    const ON_CRASH: Crash = H::ON_CRASH;
    const WAITERS_DIE_FIRST: bool = H::WAITERS_DIE_FIRST;
    const NAME_MAX: usize = H::NAME_MAX - W::NAME_BYTES;

    async fn start() -> Self {
        Self(H::start().await, PhantomData)
    }

    async fn client(&self) -> Arc<dyn Store> {
        W::wrap(self.0.client().await, self.0.clock())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The wrapper holds the only other handle, so the store below sees the end of its client.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        self.0.crowd(name, round).await;
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        self.0.server_clock()
    }

    fn prefix(&self) -> String {
        self.0.prefix()
    }

    fn set_up(&self, builder: KeeperBuilder) -> KeeperBuilder {
        W::set_up(self.0.set_up(builder))
    }

    fn short(&self) -> Ttls {
        self.0.short()
    }

    fn fault_profile(&self) -> Faults {
        self.0.fault_profile()
    }
}
