//! Redis stores under test, on real servers.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{LockName, RedisStore};
use lockkeeper_testing::{Crash, Harness, Time, Ttls, unique_prefix};

use super::crowd;
use super::servers::Servers;

/// Each case has names of its own on the shared servers.
pub(crate) struct On<S>(PhantomData<S>);

impl<S: Servers> Harness for On<S> {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    /// Less the prefix.
    const NAME_MAX: usize = 255 - 13;

    async fn start() -> Self {
        Self(PhantomData)
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(RedisStore::from_url(&S::url().parse().unwrap()).unwrap().connect().await.unwrap())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The client closes its connection without a message.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::redis::comes(&S::url(), name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Ttls {
        // Real servers beside a busy machine: a stall of a second is no loss.
        Ttls { ttl: Duration::from_secs(3), wait_ttl: Duration::from_millis(1500), lock_delay: Duration::from_secs(1) }
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}
