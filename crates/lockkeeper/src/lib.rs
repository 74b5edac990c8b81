//! Distributed locks with fencing tokens.
//!
//! ```
//! # async fn f() -> lockkeeper::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("file:{}", folder.path().join("locks.db").display());
//! let keeper = lockkeeper::connect(&url).await?;
//!
//! let guard = keeper.mutex("stock/42")?.lock().await?;
//! println!("fencing token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
//! ```
//!
//! # What is promised, and what is not
//!
//! A lock between processes is a lease. If the holder stops for longer than the lease lasts, the
//! lease expires, and another holder gets the lock.
//!
//! > While the store keeps its state, and clocks run at rates that differ by less than the drift allowance (0.5 % for each),
//! > no [`check`](Guard::check), [`remaining`](Guard::remaining) or poll inside [`with`](Acquire::with) or
//! > [`scope`](Guard::scope) that *starts* after the store may have given the lock away reports it as held.
//!
//! Only the resource can refuse a request that a holder *has already sent*. Send the [fencing
//! token](FencingToken) with every access, reads included, and let the resource check it
//! ([`fence`]).
//!
//! # Finding the way
//!
//! | to do | look at |
//! |---|---|
//! | connect to a store | [`connect`], [`Keeper::builder`], [`Keeper::from_url`] |
//! | take a lock | [`Mutex::lock`], [`Mutex::try_lock`], and what can be set: [`Acquire`] |
//! | take a shared lock beside other readers | [`RwLock`] |
//! | take a lock again while holding it | [`ReentrantMutex`] |
//! | take permits of a limited number | [`Semaphore`] |
//! | take several locks at once | [`Keeper::multi`], [`Keeper::multi_lock`] |
//! | lead, and find the leader | [`Election`] |
//! | hold a lock | [`Guard`] |
//! | hold a lock over several processes | [`Acquire::detached`], [`Keeper::adopt`] |
//! | run work under a lock | [`Acquire::with`], [`Guard::scope`] |
//! | check a token where the data lives | [`fence`] |
//! | check a token before a web service | `fence::FenceLayer` (feature `tower`) |
//! | check a token in an SQL database | [`fence::sql`] |
//! | change a value without a lock | [`optimistic::update`] |
//! | see holders and waiters | [`Keeper::inspect`], [`Keeper::watch`], [`Admin::list`] |
//! | break a lock whose holder is gone | [`Admin::break_lock`] |
//! | examine a store | [`doctor::examine`] |
//! | observe what happens | [`Event`], [`KeeperBuilder::on_event`] |
//! | give users a part of a store | [`layer::Prefix`] |
//! | trace the calls of a store | [`layer::Traced`] |
//! | test what your work does when its lock is lost | `testing::TestStore` (feature `testing`) |
//! | do all that without async | `blocking` (feature `blocking`) |
//! | see lockkeeper at work | the examples, listed in `docs/examples.md` |
//! | write a store | [`store`], and the contract suite: the crate `lockkeeper-testing` |
//!
//! # Stores
//!
//! | store | URL | feature | for |
//! |---|---|---|---|
//! | [`MemoryStore`] | `memory:` | always | one process: tests |
//! | `FileStore` | `file:PATH` | `file` | the processes of one host; Linux |
//! | `EtcdStore` | `etcd://`, `etcds://` | `etcd` | many hosts; etcd 3.5.14 or newer |
//! | `RedlockStore` | `redlock://`, `redlocks://` | `redlock` | many hosts; three or more independent Redis or Valkey |
//! | `RedisStore` | `redis://`, `redis+sentinel://`, `redis+cluster://`; `rediss` for TLS | `redis` | many hosts; Redis 6.2 or newer, Valkey |
//! | `ForeignRedisStore` | the same with `?layout=` | `redis` | locks that other libraries on Redis take too |
//!
//! No store is a default feature, so a program compiles only the stores that it uses. The file
//! store is built on SQLite, which needs a C compiler and takes longer to compile than all the
//! rest. The provider of TLS is aws-lc-rs (`tls-aws-lc-rs`, a default feature), or ring with
//! `default-features = false` and the feature `tls-ring`. See [`Tls`].
//!
//! Each store opens its own connections, and accepts none from a driver or a pool. The order of the
//! requests on a connection is part of the protocol, and requests of other code would break that
//! order.
//!
//! # Runtime
//!
//! The engine runs on the tokio runtime in which the keeper is connected. This runtime needs timers
//! and I/O. Without a runtime, or with [`KeeperBuilder::dedicated_thread`], the engine runs on a
//! thread of its own.
//!
//! # Watching
//!
//! Everything that happens is an [`Event`]. The keeper logs each event with [`tracing`] (target
//! `lockkeeper`) and passes it to [`KeeperBuilder::on_event`]. With the feature `metrics` it also
//! counts the event in the recorder of the `metrics` facade. Each attempt is a span `lock.acquire`,
//! and each hold is a span `lock.hold`. [`layer::Traced`] makes a span of each call of the store.
#![forbid(unsafe_code)]

mod api;
pub mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod doctor;
mod drivers;
mod engine;
#[cfg(feature = "etcd")]
pub mod etcd;
mod events;
pub mod fence;
mod kinds;
pub mod layer;
pub mod optimistic;
#[cfg(feature = "testing")]
pub mod testing;

pub use api::acquire::{Acquire, Acquired};
pub use api::acquiring::Acquiring;
pub use api::admin::{Admin, Break, Target};
pub use api::builder::KeeperBuilder;
pub use api::guard::{Guard, NotConverted};
pub use api::handle::Handle;
pub use api::info::{HolderInfo, LockInfo, WaiterInfo};
pub use api::keeper::{Keeper, connect};
pub use api::requested::{ReleaseRequest, ReleaseRequested};
pub use api::session_watch::SessionWatch;
pub use api::watch::LockWatch;
use api::{acquire, builder, finish, guard, info};
#[cfg(feature = "etcd")]
pub use backend::etcd::EtcdStore;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use backend::file::FileStore;
pub use backend::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use backend::redis::RedisStore;
#[cfg(feature = "redis")]
pub use backend::redis_foreign::ForeignRedisStore;
#[cfg(feature = "redlock")]
pub use backend::redlock::RedlockStore;
pub use drivers::drivers;
pub use engine::{Lost, SessionState};
pub use events::event::{Event, Missed};
use events::{event, metrics};
pub use kinds::{
    Election, Lead, Leader, Leadership, MultiBuilder, MultiGuard, MultiLock, Mutex, Observer,
    ReentrantMutex, RwLock, Semaphore,
};
#[cfg(any(feature = "redis", feature = "redlock", feature = "etcd"))]
#[doc(inline)]
pub use lockkeeper_core::Tls;
#[cfg(feature = "testing")]
use lockkeeper_core::kit::seeded;
use lockkeeper_core::kit::{random, runtime, serial};
#[doc(inline)]
pub use lockkeeper_core::store::{Broken, IdHash};
#[doc(inline)]
pub use lockkeeper_core::{
    Effect, Error, ErrorKind, FencingToken, LockName, LostReason, Mode, Open, Owner, Result,
    Secret, Sequencer, duration, store, time, url,
};
use lockkeeper_core::{marks, name, registers};
