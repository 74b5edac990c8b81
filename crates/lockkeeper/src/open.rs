//! What is to be opened: a store, or a register.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Result;
use crate::optimistic::Register;
use crate::store::Store;

/// What a [keeper](crate::Keeper::builder) or a register is made on: what is open already, or what says how to open it
/// and is opened by whoever gets it.
///
/// `T` is `dyn` [`Store`] or `dyn` [`Register`](crate::optimistic::Register). Every store opens as itself, and so does
/// every register. A builder that is handed over unopened, such as that of a `FileStore`, is opened in the runtime of
/// the engine that will use it: its connections live there as long as the engine does, also where the caller has no
/// runtime, or blocks it.
///
/// ```
/// use std::sync::Arc;
///
/// use lockkeeper::store::Store;
/// use lockkeeper::{Keeper, MemoryStore, Open, Result};
///
/// #[derive(Debug)]
/// struct Configured;
///
/// #[async_trait::async_trait]
/// impl Open<dyn Store> for Configured {
///     async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
///         // … read where the store is, connect, and:
///         Ok(Arc::new(MemoryStore::new()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let keeper = Keeper::builder(Configured).connect().await?;
/// assert!(keeper.mutex("report")?.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a `{T}` nor something that opens one",
    note = "stores, registers and their builders are both"
)]
#[async_trait]
pub trait Open<T: ?Sized>: Debug + Send + Sync + 'static {
    /// Opens it. Called in a tokio runtime with timers and I/O enabled, which lasts as long as what is opened is used:
    /// tasks and sockets may be made in it.
    ///
    /// # Errors
    /// What keeps it from being opened.
    ///
    /// # Cancel safety
    /// It may be dropped, or end after nobody waits for it any more; what it has opened is dropped then.
    async fn opened(self: Box<Self>) -> Result<Arc<T>>;
}

#[async_trait]
impl<S: Store> Open<dyn Store> for S {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(*self))
    }
}

#[async_trait]
impl<R: Register> Open<dyn Register> for R {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Register>> {
        Ok(Arc::new(*self))
    }
}
