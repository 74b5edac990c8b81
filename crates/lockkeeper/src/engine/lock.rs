//! The mutexes of the engine. Nothing here panics while it holds one of them, so a poisoned one is
//! still whole.

pub(crate) use lockkeeper_core::sync::lock;
