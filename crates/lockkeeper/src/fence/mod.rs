//! The resource's side of a lock: the check that stops a former holder that does not know of its
//! loss yet.
//!
//! No lock can stop a request that was already sent. For example, a holder is paused (a long
//! garbage collection, a suspended machine, a slow disk), its lease expires, another holder gets
//! the lock, and then the first holder goes on:
//!
//! ```text
//!   A   lock, token 33 ──── paused ──────────────────────── write(33) ──▶ refused
//!   B                          lock, token 34 ── write(34) ──▶ done
//!   resource                                     has seen 34
//! ```
//!
//! The resource sees the difference, since the tokens of a lock rise with every grant. It keeps the
//! highest tokens that it has seen, and refuses older ones. Two rules make it work:
//!
//! - **Every access carries the token, reads too.** The first access with a token shuts out all
//!   older holders. If only writes are checked, an old holder's write still gets in between a new
//!   holder's read and its write.
//! - **The mode is that of the lock, not of the operation**: the holder of a mutex is exclusive
//!   even if it only reads.
//!
//! A [`FenceGate`] is this check for a resource in one process, and a [`KeyedFenceGate`] is the
//! check for many resources. [`Marks`] is the rule alone, as a value to store with the data.
//! [`sql`] is the rule as statements of a database, and [`redis`] is the rule as a script of Redis.
//! A gate in memory loses its marks at the end of its process, and may then let an old holder in.
//! So a resource that outlives its process stores the marks with the data, in the same transaction.
//! With the feature `tower`, `FenceLayer` puts a gate before a web service.
//!
//! ```
//! use lockkeeper::Sequencer;
//! use lockkeeper::fence::FenceGate;
//!
//! // What A and B got with the lock, and send along with every request.
//! let a: Sequencer = "lk1.x.33.stock%2F42".parse()?;
//! let b: Sequencer = "lk1.x.34.stock%2F42".parse()?;
//!
//! let gate = FenceGate::new("stock/42".parse()?);
//! assert!(gate.admit(&a).is_ok());
//! // A is stopped, its lease ends, B takes over.
//! assert!(gate.admit(&b).is_ok());
//! // A goes on, and its write is refused.
//! let stale = gate.admit(&a).unwrap_err();
//! assert_eq!(stale.refused(), &a);
//! # Ok::<(), lockkeeper::Error>(())
//! ```

mod gate;
#[cfg(feature = "tower")]
mod service;
pub mod sql;
mod stale;

pub use self::gate::{FenceGate, KeyedFenceGate};
#[cfg(feature = "tower")]
pub use self::service::{FenceFuture, FenceLayer, FenceService, LOCK_SEQUENCER};
pub use self::stale::Stale;
pub use crate::marks::{Marks, StaleReason, redis};
