//! The state of an open store, which all operations share, and the requests that most of them send.

mod notices;
mod order;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

pub(crate) use self::order::{Carrying, Order, OrderGuard};
use crate::builder::checks::Check;
use crate::layout::transaction::only;
use crate::layout::{Layout, Lines};
use crate::runtime::Runtime;
use crate::sessions::{Sessions, Tombstones};
use crate::store::{Admission, Capabilities, Elsewhere, Expiry};
use crate::time::Clock;
use crate::wire::messages::{KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use crate::wire::{Calls, WireError};
use crate::{Result, fault};
use lockkeeper_core::kit::{Listeners, Process};

/// What the store can do in its own layout.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    expiry: Expiry::Session { proof_lag: 0 },
    // 1.5 times etcd's default election timeout: etcd grants no lease for less.
    ttl_min: Duration::from_secs(2),
    max_waiters: 10_000,
    elsewhere: Elsewhere::at("etcd:// without layout="),
    ..Capabilities::full()
};

/// What the store can do in the layout that it shares with other programs.
pub(crate) const SHARED_CAPABILITIES: Capabilities =
    Capabilities { admission: Admission::Exclusive, min_hold_max: Duration::ZERO, ..CAPABILITIES };

/// A store on etcd. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::{EtcdStore, Keeper, Secret};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = EtcdStore::new(["e1", "e2", "e3"]).user("app").password(Secret::new("hunter2"));
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EtcdStore(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) calls: Arc<Calls>,
    pub(crate) lines: Lines,
    pub(crate) sessions: Sessions,
    pub(crate) order: Arc<Order>,
    pub(crate) tombstones: Tombstones,
    /// The name of this client in its notification keys.
    pub(crate) client: Arc<str>,
    pub(crate) address: String,
    pub(crate) timeout: Duration,
    pub(crate) waived: Vec<Check>,
    /// Whether the marker of the prefix is known to name this layout.
    pub(crate) is_marked: AtomicBool,
    pub(crate) clock: Clock,
    pub(crate) process: Process,
    pub(crate) runtime: Runtime,
    pub(crate) losses: Listeners,
    pub(crate) listening: AtomicBool,
    /// Notified when a claim of this client was changed from outside, whichever claim.
    pub(crate) notices: Notify,
}

impl EtcdStore {
    /// What this store can do in its layout.
    pub(crate) fn can(&self) -> Capabilities {
        match self.0.lines.layout {
            Layout::Native => CAPABILITIES,
            Layout::Concurrency => SHARED_CAPABILITIES,
        }
    }

    /// Reads keys. etcd answers with the state of all of them at one revision.
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        let asked = self.0.calls.ask("/etcdserverpb.KV/Range", request).await;
        asked.map_err(|error| fault::of(error).without_effect())
    }

    /// Reads one key.
    pub(crate) async fn read(&self, key: &Bytes) -> Result<Option<KeyValue>> {
        let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        Ok(only(Some(self.range(request).await?)))
    }

    /// Processes a transaction. etcd compares, and then does one of the two branches as a whole:
    /// all its changes have one revision, and no other request takes effect in between.
    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, WireError> {
        self.0.calls.ask("/etcdserverpb.KV/Txn", request).await
    }

    /// Refuses to work after a fork: the connections belong to the parent process too.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.0.process.check(self, "store")
    }
}

impl fmt::Display for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.0.address).finish()
    }
}
