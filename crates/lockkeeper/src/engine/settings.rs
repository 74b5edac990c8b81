//! What a keeper was built with.

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;
use crate::{Error, LockName, Result};

/// What the operator set once for all locks of a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// How long an attempt waits that waits and does not say for how long.
    pub(crate) default_wait: Option<Duration>,
    pub(crate) prefix: String,
    pub(crate) owner: Arc<str>,
    pub(crate) epoch: u16,
    pub(crate) max_waiters: u32,
}

/// The store of a keeper: as the keeper shows it, and as it is.
#[derive(Debug)]
pub(crate) struct Stores {
    /// The names behind the prefix of the keeper, without the prefix.
    pub(crate) shown: Arc<dyn Store>,
    /// All names, in full.
    pub(crate) whole: Arc<dyn Store>,
}

impl Settings {
    /// The name, which has to fit with the prefix.
    pub(crate) fn checked_name<N>(&self, name: N) -> Result<LockName>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name: LockName = name.try_into()?;
        name.under(&self.prefix)?;
        Ok(name)
    }

    /// The name in the store, with the prefix. It fits: who gave the name was told otherwise.
    pub(crate) fn full_name(&self, name: &LockName) -> LockName {
        name.under(&self.prefix).unwrap_or_else(|_| name.clone())
    }

    /// The reverse: the name as it is typed; `None` for a name outside of the prefix.
    pub(crate) fn short_name(&self, full: &LockName) -> Option<LockName> {
        full.within(&self.prefix)
    }
}
