//! A register in memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use lockkeeper_core::sync::lock;

use crate::Result;
use crate::registers::{Register, Swap, Version, Versioned, Write, check_key, check_write};

/// A register in this process's memory, for tests and for values that may end with the process.
/// Clones share it.
#[derive(Clone, Default)]
pub struct MemoryRegister(Arc<Mutex<HashMap<String, Versioned>>>);

impl MemoryRegister {
    /// An empty register.
    pub fn new() -> Self {
        Self::default()
    }

    /// A value is replaced as a whole, so a panic elsewhere leaves no value half changed.
    fn values(&self) -> MutexGuard<'_, HashMap<String, Versioned>> {
        lock(&self.0)
    }
}

impl fmt::Display for MemoryRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}

impl fmt::Debug for MemoryRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryRegister")
    }
}

#[async_trait]
impl Register for MemoryRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        check_key(key)?;
        Ok(self.values().get(key).cloned())
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        check_write(key, write)?;
        let mut values = self.values();
        let current = values.get(key);
        if Version::of(current) != write.expected() {
            return Ok(Swap::Conflict(current.cloned()));
        }
        let next = Versioned::after(current, write);
        values.insert(key.to_owned(), next);
        Ok(Swap::Done)
    }
}
