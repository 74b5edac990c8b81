//! The mutexes of the process itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whether a thread has panicked with it or not. For data that no operation leaves
/// half-changed when it panics.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
