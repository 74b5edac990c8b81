//! A check of the lock in the user's own transaction: the strongest fence, for data in the same
//! etcd.

use std::sync::Arc;

use crate::store::HeldClaim;
use crate::{Error, ErrorKind, Result};

/// The beginning of every fence key of this store, so that the key of another store is not taken
/// for one.
const MARK: &[u8] = b"etcd:";

/// A comparison for a transaction of the user. It fails as soon as the claim no longer exists.
///
/// Any client of etcd can use it: `create_revision(key) = create_revision`, as Go's
/// `Mutex.IsOwner()` returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdCompare {
    /// The key of the claim.
    pub key: Vec<u8>,
    /// The revision that created the key. etcd compares it with `CREATE` and `EQUAL`.
    pub create_revision: i64,
}

impl EtcdCompare {
    /// Returns the comparison that is true for as long as this claim is held.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) when the lock is not kept in etcd.
    pub fn of(held: &HeldClaim) -> Result<Self> {
        let key = held.fence_key.as_deref().and_then(|fence_key| fence_key.strip_prefix(MARK));
        let revision = i64::try_from(held.token.raw()).ok();
        match key.zip(revision) {
            Some((key, create_revision)) => Ok(Self { key: key.to_vec(), create_revision }),
            None => Err(Error::new(ErrorKind::Unsupported, "this lock is not kept in etcd")
                .about(held.name.clone())
                .with_remedy("the fencing token, and one of the checks of lockkeeper::fence")),
        }
    }
}

/// The fence key of a claim with this key.
pub(super) fn fence_key(at: &[u8]) -> Arc<[u8]> {
    [MARK, at].concat().into()
}
