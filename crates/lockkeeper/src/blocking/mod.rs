//! The same locks without async: for programs with threads, and for the parts of an async program that block.
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
//! | `optimistic::update(&register, key, async \|old\| …).await?` | `register.update(key, \|old\| …)?`: see [`optimistic`] |
//! | `FileStore::new(path).open().await?`, for a keeper or a register | `FileStore::new(path)` itself: see [`Open`](crate::Open) |
//! | a [reentrant mutex](crate::ReentrantMutex) for an [`Owner`](crate::Owner) | one for a [thread](ReentrantMutex) |
//!
//! All else has the same names and does the same, and what has no async in it is the same type: errors, tokens,
//! handles, events.
//!
//! # Threads and runtimes
//!
//! The engine of a [`Keeper`] of this module always runs on a thread of its own: it renews locks, and knows of their
//! loss, whatever the program's own threads do. A call blocks its thread, and nothing else. So it works on a thread that
//! knows no runtime, and on one that runs async code, whatever that runtime is: it never panics there. It does hold
//! that thread up, as any call that blocks does. On a runtime of one thread nobody else runs meanwhile, and who waits
//! there for a lock that another task of the same thread holds waits for ever; give such a wait a
//! [limit](Attempt::wait), or move it to `spawn_blocking`.
//!
//! Only the callback of [`KeeperBuilder::on_event`] must not block, since it runs on the engine's thread too: a call
//! that would wait there is refused with [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock).
//!
//! A thread that waits is not interrupted by anything but the end of its [limit](Attempt::wait), or a
//! [`shutdown`](Keeper::shutdown) from another thread, which gives it [`Closed`](crate::ErrorKind::Closed).

mod admin;
mod attempt;
mod builder;
pub mod doctor;
mod guard;
mod keeper;
mod kinds;
mod lost;
pub mod optimistic;
mod park;
mod requested;
mod watch;

pub use admin::Admin;
pub use attempt::{Acquired, Attempt};
pub use builder::KeeperBuilder;
pub use guard::Guard;
pub use keeper::{Keeper, connect};
pub use kinds::{
    Election, Leadership, MultiBuilder, MultiGuard, MultiLock, Mutex, Observer, ReentrantGuard, ReentrantMutex, RwLock,
    Semaphore,
};
pub use lost::Lost;
pub use requested::ReleaseRequested;
pub use watch::{LockWatch, SessionWatch};
