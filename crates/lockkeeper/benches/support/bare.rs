//! The memory store by itself, without an engine.

use std::time::Duration;

use lockkeeper::MemoryStore;
use lockkeeper::store::{Claim, ClaimId, ClaimKey, SessionId, SessionSpec, Store as _};

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
        let session = SessionId::random();
        store.open(&session, &spec).await.unwrap();
        Self { store, spec, session }
    }

    /// The claim that the engine makes of a request to lock.
    pub(crate) fn claim(&self) -> Claim {
        let key = ClaimKey {
            name: "n".parse().unwrap(),
            session: self.session.clone(),
            id: ClaimId::random(),
        };
        Claim::exclusive(key, &self.spec)
    }

    /// The two requests of the engine for a lock and its release.
    pub(crate) async fn pair(&self, claim: &Claim) {
        self.store.claim(claim).await.unwrap();
        self.store.withdraw(&claim.key, None).await.unwrap();
    }
}
