//! Optimistic locking without async: see [`lockkeeper::optimistic`](crate::optimistic), which also
//! has the types.
//!
//! ```
//! use lockkeeper::FileStore;
//! use lockkeeper::blocking::optimistic::Register;
//!
//! # fn f() -> lockkeeper::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("locks.db");
//! let register = Register::open(FileStore::new(path))?;
//! let sold = register.update("stock/42", |old| {
//!     let count: u64 = old.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(7);
//!     (count - 1).to_string().into_bytes()
//! })?;
//! assert_eq!(sold.value, b"6");
//! assert_eq!(register.load("stock/42")?.map(|now| now.version), Some(sold.version));
//! # Ok(())
//! # }
//! # f().unwrap();
//! ```

use std::fmt;
use std::future::ready;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::park::{may_wait, park, wait, wait_for};
use crate::registers::{self, Outcome, Policy, Version, Versioned, Write, after};
use crate::runtime::{Runtime, inside};
use crate::time::Clock;
use crate::{Error, Open, Result};
use lockkeeper_core::kit::Process;

/// A register for threads: [values with versions](crate::optimistic::Register), each under a key.
/// Cheap to clone; clones share the register and the thread with its timers and connections.
#[derive(Clone)]
pub struct Register {
    inner: Arc<dyn registers::Register>,
    runtime: Arc<Runtime>,
    process: Process,
}

impl Register {
    /// Opens a register from the builder of a store that keeps registers, or uses a register that
    /// is open already: see [`Open`].
    ///
    /// # Errors
    /// The errors with which the register refuses to open; [`Internal`](crate::ErrorKind::Internal)
    /// when the operating system gives no thread;
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) on the thread of an engine, as from every
    /// call here.
    pub fn open(register: impl Open<dyn registers::Register>) -> Result<Self> {
        may_wait()?;
        let runtime = Arc::new(Runtime::own()?);
        let opening = async move { Box::new(register).opened().await };
        let inner = park(inside(&runtime, runtime.carry(Box::pin(opening))))?;
        Ok(Self { inner, runtime, process: Process::this() })
    }

    /// The present value of the key; `None` for a key that was never written. See
    /// [`Register::load`](registers::Register::load).
    ///
    /// # Errors
    /// As [`Register::load`](registers::Register::load).
    pub fn load(&self, key: &str) -> Result<Option<Versioned>> {
        self.run(self.inner.load(key))?
    }

    /// Changes a value. The call loads the value, computes the new value from it, and writes the
    /// new value if no other client has written meanwhile. Otherwise the call starts again, for up
    /// to 30 s. See [`update`](crate::optimistic::update).
    ///
    /// # Errors
    /// As [`try_update`](crate::optimistic::try_update).
    pub fn update(
        &self,
        key: &str,
        mut compute: impl FnMut(Option<Vec<u8>>) -> Vec<u8>,
    ) -> Result<Versioned> {
        self.run(registers::update(&*self.inner, key, |old| ready(compute(old))))?
    }

    /// [`update`](Self::update) with another policy, for a computation that may fail. If it fails,
    /// the call writes nothing.
    ///
    /// # Errors
    /// As [`try_update`](crate::optimistic::try_update).
    pub fn try_update<E: From<Error>>(
        &self,
        policy: &Policy,
        key: &str,
        mut compute: impl FnMut(Option<Vec<u8>>) -> Result<Vec<u8>, E>,
    ) -> Result<Versioned, E> {
        self.run(registers::try_update(policy, &*self.inner, key, |old| ready(compute(old))))?
    }

    /// Does a write on a known version, and returns its outcome. See
    /// [`swap`](crate::optimistic::swap).
    ///
    /// # Errors
    /// As [`swap`](crate::optimistic::swap).
    pub fn swap(&self, policy: &Policy, key: &str, write: &Write) -> Result<Outcome<Version>> {
        self.run(registers::swap(policy, &*self.inner, key, write))?
    }

    /// Continues a write whose outcome was [`Unknown`](Outcome::Unknown). See
    /// [`settle`](crate::optimistic::settle).
    ///
    /// # Errors
    /// As [`settle`](crate::optimistic::settle).
    pub fn settle(&self, policy: &Policy, key: &str, write: &Write) -> Result<Outcome<Version>> {
        self.run(registers::settle(policy, &*self.inner, key, write))?
    }

    /// A forked child inherits no threads, so no timer of this runtime goes off there.
    fn run<F: Future>(&self, call: F) -> Result<F::Output> {
        self.process.check(self, "register")?;
        wait(inside(&self.runtime, call))
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Register").field(&self.inner).finish()
    }
}

/// Repeats an optimistic attempt of any kind until it is done: see
/// [`retry`](crate::optimistic::retry).
///
/// # Errors
/// As [`retry`](crate::optimistic::retry).
pub fn retry<T, E, F>(policy: &Policy, mut attempt: F) -> Result<T, E>
where
    E: From<Error>,
    F: FnMut() -> Result<Outcome<T>, E>,
{
    may_wait()?;
    let mut tries = policy.start_by(Clock::boot());
    loop {
        match after(attempt()?, &mut tries)? {
            ControlFlow::Break(done) => return Ok(done),
            ControlFlow::Continue(pause) => drop(wait_for(pause, std::future::pending::<()>())?),
        }
    }
}
