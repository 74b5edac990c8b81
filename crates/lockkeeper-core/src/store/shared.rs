//! A shared store is a store: several keepers, or a keeper and a test, share one connection.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Store, forward_store};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Arc<S> {
    forward_store! { self => (**self);
        capabilities admin open renew close claim amend withdraw wait line id fence_key on_loss
    }
}
