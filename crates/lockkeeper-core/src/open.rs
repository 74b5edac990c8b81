//! Stores that a keeper opens later.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Result;
use crate::store::Store;

/// The argument of a keeper: a store that is open already, or a builder that the keeper opens.
///
/// `T` is `dyn` [`Store`]. Every store opens as itself. The engine opens a builder, such as the
/// builder of a `FileStore`, in its own runtime. The connections live there as long as the engine,
/// even if the caller has no runtime or blocks it.
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
    note = "stores and their builders are both"
)]
#[async_trait]
pub trait Open<T: ?Sized>: Debug + Send + Sync + 'static {
    /// Opens the store. The engine calls this in a tokio runtime with timers and I/O enabled, which
    /// lives as long as the store is in use. The call may start tasks and open sockets.
    ///
    /// # Errors
    /// The reason why the store cannot be opened.
    ///
    /// # Cancel safety
    /// The future may be dropped, or may end after its caller has gone. The engine then drops what
    /// the future has opened.
    async fn opened(self: Box<Self>) -> Result<Arc<T>>;
}

#[async_trait]
impl<S: Store> Open<dyn Store> for S {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(*self))
    }
}
