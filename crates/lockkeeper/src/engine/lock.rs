//! The mutexes of the engine. No code here panics while it holds one of them, so the data of a
//! poisoned mutex is still whole.

pub(crate) use lockkeeper_core::sync::lock;
