//! The command that runs under the lock: its start, its signals, and its end when the lock is lost.

mod budget;
pub(crate) mod environment;
pub(crate) mod guard;
mod kill_set;
pub(crate) mod lease;
pub(crate) mod orphans;
pub(crate) mod policy;
pub(crate) mod processes;
pub(crate) mod restart;
pub(crate) mod running;
mod seen;
pub(crate) mod shim;
mod signal_queue;
pub(crate) mod signals;
pub(crate) mod spawn;
mod stop;
pub(crate) mod supervise;
mod terminal;
mod this_program;
