//! The settings of a keeper.

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;
use crate::{Error, LockName, Result};

/// The settings that a program makes once for all locks of a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// How long an attempt waits if it waits and sets no time of its own.
    pub(crate) default_wait: Option<Duration>,
    pub(crate) prefix: String,
    pub(crate) owner: Arc<str>,
    pub(crate) epoch: u16,
    pub(crate) max_waiters: u32,
}

/// The store of a keeper, with short names and with full names.
#[derive(Debug)]
pub(crate) struct Stores {
    /// The names behind the keeper's prefix, without the prefix.
    pub(crate) shown: Arc<dyn Store>,
    /// All names, in full.
    pub(crate) whole: Arc<dyn Store>,
}

impl Settings {
    /// The name, if it fits together with the prefix.
    pub(crate) fn checked_name<N>(&self, name: N) -> Result<LockName>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name: LockName = name.try_into()?;
        name.under(&self.prefix)?;
        Ok(name)
    }

    /// The name in the store, with the prefix. It fits: `checked_name` has refused every other
    /// name.
    pub(crate) fn full_name(&self, name: &LockName) -> LockName {
        name.under(&self.prefix).unwrap_or_else(|_| name.clone())
    }

    /// The short name of a full name; `None` for a name outside of the prefix.
    pub(crate) fn short_name(&self, full: &LockName) -> Option<LockName> {
        full.within(&self.prefix)
    }
}
