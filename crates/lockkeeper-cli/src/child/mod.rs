//! The command that runs under the lock: how it is started, signalled, and ended when the lock is lost.

pub(crate) mod environment;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod supervise;
