//! The kinds of locks. Each is documentation and thin calls: the engine knows claims only.

mod mutex;

pub use mutex::Mutex;
