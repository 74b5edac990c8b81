//! Claims that a test sends itself, without a keeper.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Live, LiveState, Renewal, SessionId, SessionSpec, Store, Verdict,
    Withdrawal,
};

use crate::locks::{connected, patiently};

/// One exclusive claim, and a client that sends it: only the test renews it and withdraws it.
#[derive(Clone, Debug)]
pub(super) struct Claimant {
    pub(super) store: Arc<dyn Store>,
    pub(super) claim: Claim,
}

impl Claimant {
    /// A claim of a new session, which this client opens.
    pub(super) async fn new(store: &Arc<dyn Store>, name: &str, spec: &SessionSpec) -> Self {
        let session = SessionId::random();
        patiently(async || store.open(&session, spec).await).await;
        let key = ClaimKey { name: name.parse().unwrap(), session, id: ClaimId::random() };
        Self { store: Arc::clone(store), claim: Claim::exclusive(key, spec) }
    }

    /// A claim of a new detached session, and the same claim at a client that has not opened the
    /// session.
    pub(super) async fn shared(url: &str, name: &str, spec: &SessionSpec) -> [Self; 2] {
        let ours = Self::new(&connected(url).await, name, spec).await;
        let theirs = Self {
            store: connected(url).await,
            claim: Claim { resend: true, ..ours.claim.clone() },
        };
        [ours, theirs]
    }

    /// Another claim of the same session.
    pub(super) fn another(&self) -> Self {
        let mut another = self.clone();
        another.claim.key.id = ClaimId::random();
        another
    }

    /// Sends the claim, which is granted, and returns its token.
    pub(super) async fn granted(&self) -> u64 {
        match self.store.claim(&self.claim).await {
            Ok(Verdict::Granted { token, .. }) => token,
            other => panic!("expected a grant, not {other:?}"),
        }
    }

    /// Sends the claim, which joins the line.
    pub(super) async fn queued(&self) {
        let verdict = self.store.claim(&self.claim).await;
        assert!(matches!(verdict, Ok(Verdict::Queued { .. })), "{verdict:?}");
    }

    pub(super) fn live(&self) -> [Live; 1] {
        [Live { key: self.claim.key.clone(), state: LiveState::Granted }]
    }

    pub(super) async fn renew(&self) -> Renewal {
        let renewed = self.store.renew(&self.claim.key.session, &self.live()).await.unwrap();
        renewed.claims.into_iter().next().unwrap()
    }

    pub(super) async fn release(&self) {
        let withdrawn = self.store.withdraw(&self.claim.key, None).await.unwrap();
        assert_eq!(withdrawn, Withdrawal::Removed);
    }
}

/// The times of a claim that waits as long as a holder lives.
pub(super) fn spec(ttl: Duration) -> SessionSpec {
    SessionSpec::new(ttl, Duration::ZERO)
}
