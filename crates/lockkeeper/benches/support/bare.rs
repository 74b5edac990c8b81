//! The memory store by itself, without an engine.

use std::time::Duration;

use lockkeeper::MemoryStore;
use lockkeeper::store::{Claim, ClaimId, ClaimKey, MAX, Meta, SessionId, SessionSpec, Store as _};

/// A store, and the session of all claims.
pub(crate) struct Bare {
    store: MemoryStore,
    spec: SessionSpec,
    session: SessionId,
}

impl Bare {
    pub(crate) async fn open() -> Self {
        let store = MemoryStore::new();
        let spec = SessionSpec::new(Duration::from_secs(30), Duration::ZERO);
        let session = store.open(&spec).await.unwrap().id;
        Self { store, spec, session }
    }

    /// What the engine makes of a request to lock.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            key: ClaimKey { name: "n".parse().unwrap(), session: self.session.clone(), id: ClaimId::random() },
            ttl: self.spec.ttl,
            wait_ttl: self.spec.wait_ttl,
            lock_delay: self.spec.lock_delay,
            weight: MAX,
            capacity: MAX,
            queue: true,
            resend: false,
            replaces: None,
            max_waiters: 1000,
            meta: Meta::default(),
        }
    }

    /// What the engine asks of the store for a lock and its release.
    pub(crate) async fn pair(&self, claim: &Claim) {
        self.store.claim(claim).await.unwrap();
        self.store.withdraw(&claim.key, None).await.unwrap();
    }
}
