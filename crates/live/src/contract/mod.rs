//! The contract suite on real servers: its harnesses, and the ways to the servers of each store.
//!
//! Each store has one list of ways ([`redis_ways!`](crate::redis_ways),
//! [`etcd_ways!`](crate::etcd_ways)). The program `contract` of the store runs a part of the suite
//! on each way, and `matrix` runs the whole suite.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod etcd;
mod redis;
mod redlock;

use std::marker::PhantomData;
use std::sync::Arc;

use lockkeeper::LockName;
use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper_testing::{Crash, Harness, Time, Ttls, unique_prefix};

pub use self::etcd::{
    DebianEtcd, EtcdBehindTls, OldestEtcd, OneMember, SharedWithGo, ThreeMembers,
};
pub use self::redis::{
    ByResp2, BySentinels, Clustered, FairLayout, FencedLayout, Moved, ONE_PERMIT, OnePermitLayout,
    PlainLayout, PlainLayoutByResp2, Protocol, RedisBehindTls, RedissonLayout, Resp2, Resp3,
    RwLayout, RwLayoutOnValkey, Standalone, WithAReplica,
};
pub use self::redlock::{FiveNodes, ThreeNodes, ThreeValkeys};
use crate::locks::connected;

/// The longest name of a case: its prefix is a part of the name of the lock.
const NAME_MAX: usize = LockName::MAX_LEN - 13;

/// Servers that the tests of a process share, and one way to reach them.
pub trait Servers: Send + Sync + 'static {
    /// The times of claims that expire within a case.
    const SHORT: Ttls;

    /// The URL of the store.
    fn url() -> String;

    /// Puts data of others around the lock of this name: see [`Harness::crowd`].
    fn put_foreign_data(name: &LockName, round: usize);
}

/// The store on shared servers. Each case has names of its own.
#[derive(Debug)]
pub struct On<S>(PhantomData<S>);

impl<S: Servers> Harness for On<S> {
    const TIME: Time = Time::Real;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;
    const NAME_MAX: usize = NAME_MAX;

    async fn start() -> Self {
        Self(PhantomData)
    }

    async fn client(&self) -> Arc<dyn Store> {
        connected(&S::url()).await
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        // The client closes its connection without a message.
        drop(client);
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        S::put_foreign_data(name, round);
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn prefix(&self) -> String {
        unique_prefix()
    }

    fn short(&self) -> Ttls {
        S::SHORT
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}

/// Makes a type of each way: its name, and the expression of its URL. `$foreign` puts data of
/// others around a lock at a URL.
macro_rules! servers {
    ($short:expr, $foreign:path; $($(#[$doc:meta])* $way:ident = $url:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $way;

        impl super::Servers for $way {
            const SHORT: Ttls = $short;

            fn url() -> String {
                $url
            }

            fn put_foreign_data(name: &LockName, round: usize) {
                $foreign(&Self::url(), name, round);
            }
        }
    )*};
}
use servers;

/// Makes a suite of each way in a list.
#[doc(hidden)]
#[macro_export]
macro_rules! __ways {
    (
        $suite:ident, lacks = $lacks:tt, left_out = $left_out:literal;
        $($module:ident: $harness:ty;)*
    ) => {$(
        $crate::testing::$suite! {
            mod $module;
            harness = $harness;
            lacks = $lacks;
            left_out = $left_out
        }
    )*};
}
