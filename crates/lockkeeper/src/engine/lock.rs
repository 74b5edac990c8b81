//! The mutexes of the engine.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing here panics while it holds one of these locks, so a poisoned one is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
