//! The store under test, on real servers, in every way of connection.

mod crowd;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, EtcdStore, LockName};
use lockkeeper_live::Servers;
use lockkeeper_testing::{Crash, Harness, Time, Ttls, unique_prefix};

pub(crate) struct One;

impl Servers for One {
    fn url() -> String {
        lockkeeper_live::etcd().unwrap().url()
    }
}

pub(crate) struct Three;

impl Servers for Three {
    fn url() -> String {
        lockkeeper_live::etcd_three().unwrap().url()
    }
}

pub(crate) struct BehindTls;

impl Servers for BehindTls {
    fn url() -> String {
        let etcd = lockkeeper_live::etcd_tls().unwrap();
        format!("{}?ca={}", etcd.url(), etcd.certificates().unwrap().authority().display())
    }
}

pub(crate) struct Oldest;

impl Servers for Oldest {
    fn url() -> String {
        lockkeeper_live::etcd_oldest().unwrap().url()
    }
}

/// 3.4, which has bugs with leases that no case here meets.
pub(crate) struct OfDebian;

impl Servers for OfDebian {
    fn url() -> String {
        lockkeeper_live::etcd_debian().unwrap().url() + "?unsafe=version"
    }
}

pub(crate) struct SharedWithGo;

impl Servers for SharedWithGo {
    fn url() -> String {
        One::url() + "?layout=concurrency"
    }
}

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
        // A busy machine causes elections: no member answers until they are over.
        loop {
            match EtcdStore::from_url(&S::url().parse().unwrap()).unwrap().connect().await {
                Ok(store) => return Arc::new(store),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The client closes its connection without a message.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        crowd::comes(&S::url(), name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    /// Whole seconds; waiters have a lease of their own if their ttl is shorter by more than one
    /// second.
    fn short(&self) -> Ttls {
        Ttls {
            ttl: Duration::from_secs(4),
            wait_ttl: Duration::from_secs(2),
            lock_delay: Duration::from_secs(1),
        }
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}
