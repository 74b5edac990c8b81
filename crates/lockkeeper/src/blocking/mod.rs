//! The same locks without async: for programs with threads, and for the parts of an async program
//! that block.
//!
//! ```
//! # fn f() -> lockkeeper::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("file:{}", folder.path().join("locks.db").display());
//! let keeper = lockkeeper::blocking::connect(&url)?;
//!
//! let guard = keeper.mutex("stock/42")?.lock()?;
//! println!("fencing token {}", guard.token());
//! guard.release()?;
//! # Ok(())
//! # }
//! # f().unwrap();
//! ```
//!
//! # What is different
//!
//! | async | here |
//! |---|---|
//! | `mutex.lock().await?` | `mutex.lock()?` |
//! | `mutex.lock().wait(d).reason("…").await?` | `mutex.attempt().wait(d).reason("…").lock()?`: see [`Attempt`] |
//! | `mutex.lock().with(async \|guard\| …).await?` | `mutex.lock()?.with(\|guard\| …)?`: see [`Guard::with`] |
//! | `guard.lost().await` | `guard.lost().wait()`: see [`Lost`] |
//! | `watch.changed().await?` | `watch.changed()?`, or for a limited time `watch.changed_timeout(d)?` |
//! | `FileStore::new(path).open().await?`, for a keeper | `FileStore::new(path)` itself: see [`Open`](crate::Open) |
//! | a [reentrant mutex](crate::ReentrantMutex) for an [`Owner`](crate::Owner) | one for a [thread](ReentrantMutex) |
//!
//! All other items have the same names and do the same. Types without async, such as errors,
//! tokens, handles and events, are the same types. [Registers](crate::optimistic), and the
//! transactions of `RedisStore` on data of the program, have an async form only. A thread calls
//! them in `block_on` of a tokio runtime with timers and I/O. The runtime has to live as long as
//! the register.
//!
//! # Threads and runtimes
//!
//! The engine of a [`Keeper`] of this module always runs on a thread of its own. The engine renews
//! locks and detects their loss, whatever the program's own threads do. A call blocks its thread,
//! and nothing else. So a call works on a thread without a runtime, and on a thread of any async
//! runtime: it never panics there. The call does hold that thread up, like any blocking call. On a
//! runtime of one thread no other task runs meanwhile. If such a task holds the lock, the call
//! waits for ever: give such a wait a [limit](Attempt::wait), or move it to `spawn_blocking`.
//!
//! The callback of [`KeeperBuilder::on_event`] must not block, since it may run on the engine's
//! thread. A call that would wait there fails with
//! [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock).
//!
//! Only two events interrupt a waiting thread: the end of its [limit](Attempt::wait), and a
//! [`shutdown`](Keeper::shutdown) from another thread. After a shutdown the waiting thread gets
//! [`Closed`](crate::ErrorKind::Closed).

mod attempt;
pub mod doctor;
mod election;
mod guard;
mod keeper;
mod kinds;
mod lost;
mod mirror;
mod park;
mod reentrant;

pub use attempt::{Acquired, Attempt};
pub use election::{Election, Leadership, Observer};
pub use guard::{Guard, MultiGuard};
pub use keeper::{Admin, Keeper, KeeperBuilder, LockWatch, SessionWatch, connect};
pub use kinds::{MultiBuilder, MultiLock, Mutex, RwLock, Semaphore};
pub use lost::{Lost, ReleaseRequested};
pub use reentrant::{ReentrantGuard, ReentrantMutex};
