//! The kinds of locks. Each kind is documentation and thin calls: the engine knows only claims.

mod election;
mod lead;
mod leader;
mod leadership;
mod multi;
mod multi_guard;
mod mutex;
mod named;
mod observer;
mod reentrant;
mod rw_lock;
mod semaphore;

pub use election::Election;
pub use lead::Lead;
#[cfg(feature = "blocking")]
pub(crate) use lead::{PAUSE_MAX, PAUSE_MIN};
pub use leader::Leader;
pub use leadership::Leadership;
#[cfg(feature = "blocking")]
pub(crate) use leadership::proclaim;
pub use multi::{MultiBuilder, MultiLock};
pub use multi_guard::MultiGuard;
pub use mutex::Mutex;
pub use observer::Observer;
pub use reentrant::ReentrantMutex;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
