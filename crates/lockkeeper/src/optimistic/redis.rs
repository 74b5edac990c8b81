//! Transactions on data in Redis: look at some keys, decide, and change them if nobody else has changed them meanwhile
//! (`WATCH`, `MULTI`, `EXEC`).
//!
//! [`RedisStore::transactions`](crate::RedisStore::transactions) begins one. Each runs on a connection of its own: what is watched belongs to a
//! connection, and on one that is shared `EXEC` would also stand for what others watch. If it is lost, so is what was
//! watched, and the transaction begins anew on another one; no `EXEC` is ever sent without its `WATCH` before it.
//!
//! ```no_run
//! use lockkeeper::optimistic::redis::{Changes, Watched};
//! use lockkeeper::RedisStore;
//!
//! # async fn f() -> lockkeeper::Result<()> {
//! let store = RedisStore::standalone("10.0.0.5").connect().await?;
//! let transactions = store.transactions();
//! let replies = transactions
//!     .watch(["stock:42", "orders"])
//!     .run(async |watched: Watched| {
//!         let left = watched.read(&["GET", "stock:42"]).await?.number().unwrap_or(0);
//!         if left == 0 {
//!             return Ok::<_, lockkeeper::Error>(Changes::none());
//!         }
//!         Ok(Changes::none().and(&["DECR", "stock:42"]).and(&["RPUSH", "orders", "42"]))
//!     })
//!     .await?;
//! println!("left: {:?}", replies.first().and_then(|left| left.number()));
//! # Ok(())
//! # }
//! ```
//!
//! # Under a lock
//!
//! [`fenced`](Transaction::fenced) compares the fencing token of a lock in the same transaction, with the marks that
//! [`fence::redis`](crate::fence::redis) keeps beside the data, so both ways can be used side by side. An older holder is
//! refused before anything is looked at, and one that is overtaken while it decides changes nothing.
//!
//! ```no_run
//! # use lockkeeper::optimistic::redis::{Changes, Watched};
//! # use lockkeeper::{Keeper, RedisStore};
//! use lockkeeper::fence::redis::FencedKey;
//!
//! # async fn f(store: RedisStore) -> lockkeeper::Result<()> {
//! let keeper = Keeper::builder(store.clone()).connect().await?;
//! let guard = keeper.mutex("stock/42")?.lock().await?;
//! store
//!     .transactions()
//!     .fenced(&FencedKey::new("stock:42")?, &guard.sequencer())
//!     .run(async |_: Watched| Ok::<_, lockkeeper::Error>(Changes::none().and(&["SET", "stock:42", "7"])))
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When no answer comes
//!
//! Before `EXEC` nothing was changed, so it is tried again. Whether an `EXEC` without an answer was done nobody can tell:
//! that is an error with [`Effect::Unknown`](crate::Effect::Unknown), and the caller looks at the data. Where that has to
//! be found out by itself, [a register](crate::RedisStore::register) keeps with each value who wrote it.
//!
//! # What it takes
//!
//! - In a Cluster all keys of a transaction lie in one slot: give them the same `{hash tag}`. While that slot is on its way
//!   to another node its transactions wait.
//! - A user of the access list needs `+watch +unwatch +multi +exec` besides the commands and the keys.
//! - What stands before a server and shares its connections among clients (twemproxy and the like) cannot watch.

pub use crate::backend::redis::transactions::{Changes, Reply, Transaction, Transactions, Watched};
