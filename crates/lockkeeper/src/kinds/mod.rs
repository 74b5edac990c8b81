//! The kinds of locks. Each is documentation and thin calls: the engine knows claims only.

mod multi;
mod mutex;

pub use multi::{MultiGuard, MultiLock};
pub use mutex::Mutex;
