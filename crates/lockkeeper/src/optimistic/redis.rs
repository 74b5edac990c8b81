//! Transactions on data in Redis: read some keys, decide, and change them if no other client has
//! changed them meanwhile (`WATCH`, `MULTI`, `EXEC`).
//!
//! [`RedisStore::transactions`](crate::RedisStore::transactions) begins one. Each transaction has a
//! connection of its own: a watch belongs to a connection, and on a shared connection an `EXEC`
//! would also end the watches of others. If the connection is lost, the watches are lost too, and
//! the transaction begins again on another connection. No `EXEC` is ever sent without its `WATCH`
//! before it.
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
//! [`fenced`](Transaction::fenced) compares the fencing token of a lock in the same transaction.
//! The comparison uses the marks that [`fence::redis`](crate::fence::redis) keeps beside the data,
//! so both ways can be used side by side. An older holder is refused before its transaction reads
//! anything. A holder that is overtaken while it decides changes nothing.
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
//! Before `EXEC` nothing was changed, so the transaction is tried again. If an `EXEC` gets no
//! answer, no client can find out whether it was done: the error has
//! [`Effect::Unknown`](crate::Effect::Unknown), and the caller has to look at the data. If the
//! program must find this out on its own, use [a register](crate::RedisStore::register), which
//! keeps with each value the id of its write.
//!
//! # What it takes
//!
//! - In a Cluster all keys of a transaction lie in one slot: give them the same `{hash tag}`. While
//!   that slot moves to another node its transactions wait.
//! - A user of the access list needs `+watch +unwatch +multi +exec` besides the commands and the
//!   keys.
//! - A proxy that shares the connections of a server among clients (twemproxy and the like) cannot
//!   watch.

pub use crate::backend::redis::transactions::{Changes, Reply, Transaction, Transactions, Watched};
