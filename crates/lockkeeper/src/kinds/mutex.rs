//! The mutex: one holder at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Acquire;
use crate::engine::{Engine, Request};
use crate::store::{MAX, SessionSpec};
use crate::{Guard, LockName, Mode};

/// A lock that one holder has at a time, on every machine that uses the same store.
///
/// First come, first served: who asks with [`lock`](Self::lock) stands in line, and nobody is overtaken. Tasks of one
/// process stand behind each other, and have one place in line together. [`Acquire::unfair`] waits beside the line. It is the write lock of the read-write lock
/// of the same name.
///
/// A handle is cheap to clone and holds nothing.
///
/// ```
/// # async fn f() -> lockkeeper::Result<()> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let stock = keeper.mutex("stock/42")?;
/// let guard = stock.lock().await?;
/// println!("fencing token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    engine: Arc<Engine>,
    name: LockName,
    ttl: Duration,
    lock_delay: Duration,
}

impl Mutex {
    pub(crate) fn new(engine: &Arc<Engine>, name: LockName) -> Self {
        let (ttl, lock_delay) = (engine.settings.ttl, engine.settings.lock_delay);
        Self { engine: Arc::clone(engine), name, ttl, lock_delay }
    }

    /// Waits in line for the lock, for ever unless [`Acquire::wait`] says otherwise.
    pub fn lock(&self) -> Acquire<Guard> {
        Acquire::new(&self.engine, self.request(true), Mode::Exclusive)
    }

    /// Takes the lock if it is free, and answers `None` if it is not. Never enters the line unless [`Acquire::wait`]
    /// says so.
    pub fn try_lock(&self) -> Acquire<Option<Guard>> {
        Acquire::new(&self.engine, self.request(false), Mode::Exclusive)
    }

    /// How long the lock stays taken, at most, when its holder vanishes; the keeper's ttl (30 s) unless this is set. It
    /// is renewed every third of it. A store that sees a process end, as the file store does, frees its locks at once.
    ///
    /// A ttl that the store cannot do is returned as `Unsupported` by the first attempt.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How much longer than the ttl the store keeps the lock from others when its holder vanished, for resources that
    /// cannot check tokens: what a holder had sent has this long to arrive. The keeper's delay (zero) unless this is
    /// set. A release in time ends the hold at once.
    #[must_use]
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// The name, with the keeper's prefix.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    fn request(&self, queue: bool) -> Request {
        Request {
            name: self.name.clone(),
            weight: MAX,
            capacity: MAX,
            spec: SessionSpec::new(self.ttl, self.lock_delay),
            queue,
            unfair: false,
            fixed: false,
            max_hold: None,
            owner: None,
            reason: None,
        }
    }
}
