//! A granted claim, for its holder.

use std::sync::Arc;

use crate::{FencingToken, LockName};

/// What a guard knows of its claim: enough for a store to make a check of the claim that runs in
/// the store itself. `Guard::held_claim` returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldClaim {
    /// The name of the lock as it was typed, without the keeper's prefix.
    pub name: LockName,
    /// The token of the grant.
    pub token: FencingToken,
    /// Where the claim is, in the terms of its store: see
    /// [`Store::fence_key`](super::Store::fence_key).
    pub fence_key: Option<Arc<[u8]>>,
}

impl HeldClaim {
    /// A claim that was granted with this token.
    pub fn new(name: LockName, token: FencingToken, fence_key: Option<Arc<[u8]>>) -> Self {
        Self { name, token, fence_key }
    }
}
