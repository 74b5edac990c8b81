//! Claims for the cases. The name of each call says what the call expects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::client::patiently;
use super::{Client, Ttls};
use lockkeeper::store::{
    Amend, Amended, Claim, ClaimId, Expiry, IdHash, Interest, Line, Live, LiveState, Meta, Renewal,
    Revision, TOMBSTONE_MIN, Verdict, Wake, Withdrawal,
};
use lockkeeper::time::Instant;
use lockkeeper::{ErrorKind, Result};

/// A claim learns of a wake-up within this time. A waiter lives longer, so no wait needs a renewal.
const SOON: Duration = Duration::from_secs(4);

/// One claim of one client. Clones are the same claim.
#[derive(Clone, Debug)]
pub struct Contender {
    /// The client of the claim.
    pub client: Client,
    /// The claim that is sent.
    pub claim: Claim,
    proofs: Arc<Mutex<Vec<Instant>>>,
    changes: Arc<AtomicU64>,
}

impl Contender {
    pub(super) fn new(client: Client, claim: Claim) -> Self {
        Self { client, claim, proofs: Arc::default(), changes: Arc::default() }
    }

    /// The same claim, but it does not join the line.
    #[must_use]
    pub fn trying(mut self) -> Self {
        self.claim.queue = false;
        self
    }

    /// The same claim, in the place of another claim of its owner.
    #[must_use]
    pub fn replacing(mut self, old: &Self) -> Self {
        self.claim.replaces = Some(old.claim.key.id);
        self
    }

    /// The same claim with another `meta`.
    #[must_use]
    pub fn showing(mut self, meta: Meta) -> Self {
        self.claim.meta = meta;
        self
    }

    /// The same claim, but it asks for another ttl.
    #[must_use]
    pub fn lasting(mut self, ttl: Duration) -> Self {
        self.claim.ttl = ttl;
        self
    }

    /// The same claim, but it joins no line with more than `max_waiters` waiters.
    #[must_use]
    pub fn behind_at_most(mut self, max_waiters: u32) -> Self {
        self.claim.max_waiters = max_waiters;
        self
    }

    /// The same claim at another client.
    #[must_use]
    pub fn through(&self, other: &Client) -> Self {
        Self {
            client: Client { store: Arc::clone(&other.store), ..self.client.clone() },
            ..self.clone()
        }
    }

    /// Another attempt of the same client, with an id of its own.
    #[must_use]
    pub fn with_new_id(&self) -> Self {
        let mut claim = self.claim.clone();
        claim.key.id = ClaimId::random();
        Self::new(self.client.clone(), claim)
    }

    /// The hash of the claim's id, as listings show it.
    pub fn id(&self) -> IdHash {
        self.claim.key.id.hash()
    }

    /// The times of the claim.
    pub fn ttls(&self) -> Ttls {
        self.client.ttls
    }

    /// The latest moment at which the store has proven that this claim was alive. The store cannot
    /// have counted the claim's lifetime from an earlier moment.
    pub fn proven_alive(&self) -> Instant {
        match self.client.store.capabilities().expiry {
            Expiry::PerClaim => *self.proofs.lock().unwrap().last().expect("it was sent"),
            Expiry::Session { proof_lag, .. } => {
                let proofs = self.client.proofs.lock().unwrap();
                proofs[proofs.len().saturating_sub(1 + usize::from(proof_lag))]
            }
        }
    }

    /// Whether the store has answered any request of this claim as live.
    pub(super) fn was_answered(&self) -> bool {
        !self.proofs.lock().unwrap().is_empty()
    }

    /// Sends the claim.
    pub async fn send(&self) -> Result<Verdict> {
        self.send_as(self.claim.clone()).await
    }

    /// Sends the claim. The store must not refuse it.
    pub async fn claim(&self) -> Verdict {
        match self.send().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => self.resend().await,
            verdict => verdict.expect("a verdict"),
        }
    }

    /// Sends the claim as a claim that the store may have processed before.
    pub async fn send_again(&self) -> Result<Verdict> {
        self.send_as(Claim { resend: true, ..self.claim.clone() }).await
    }

    /// Sends the claim as a claim that the store may have processed before. The store must not
    /// refuse it.
    pub async fn resend(&self) -> Verdict {
        self.patiently(|| self.send_again()).await.expect("a verdict")
    }

    async fn send_as(&self, claim: Claim) -> Result<Verdict> {
        let sent = self.client.clock.now();
        let verdict = self.client.store.claim(&claim).await?;
        if matches!(verdict, Verdict::Granted { .. } | Verdict::Queued { .. }) {
            self.proofs.lock().unwrap().push(sent);
        }
        Ok(verdict)
    }

    /// Sends the claim, which must be granted, and returns its token.
    pub async fn granted(&self) -> u64 {
        match self.claim().await {
            Verdict::Granted { token, .. } => token,
            other => panic!("expected a grant, not {other:?}"),
        }
    }

    /// Sends the claim, which must wait.
    pub async fn queued(&self) -> Revision {
        match self.claim().await {
            Verdict::Queued { seen, .. } => seen,
            other => panic!("expected to wait, not {other:?}"),
        }
    }

    /// Sends the claim, which must be turned away.
    pub async fn busy(&self) {
        match self.claim().await {
            Verdict::Busy { .. } => {}
            other => panic!("expected to be turned away, not {other:?}"),
        }
    }

    /// Sends the claim, which must be granted, sets this minimum hold, and returns the token.
    pub async fn granted_for(&self, min_hold: Duration) -> u64 {
        let token = self.granted().await;
        assert_eq!(self.amend(Amend::MinHold(min_hold)).await, Amended::Done);
        token
    }

    /// Sends the claim, whose id must be retired.
    pub async fn gone(&self) {
        assert_eq!(self.claim().await, Verdict::Gone);
    }

    /// Sends the claim, which must be refused with an error of this kind, and returns the text of
    /// the error.
    pub async fn refused(&self, kind: ErrorKind) -> String {
        match self.send().await {
            Ok(verdict) => panic!("expected {kind:?}, not {verdict:?}"),
            Err(error) => {
                assert_eq!(error.kind(), kind, "{error:?}");
                error.to_string()
            }
        }
    }

    /// Waits in line as the engine does, as long as necessary, and returns the token.
    pub async fn acquire(&self) -> u64 {
        let mut verdict = self.claim().await;
        loop {
            let (seen, look_again) = match verdict {
                Verdict::Granted { token, .. } => return token,
                Verdict::Queued { seen, look_again, .. } => (seen, look_again),
                other => panic!("lost its place in line: {other:?}"),
            };
            let within = look_again.min(self.ttls().wait_ttl / 3).max(Duration::from_millis(1));
            if let Wake::Granted { token } = self.wait(seen, within).await {
                return token;
            }
            assert!(!self.is_lost().await, "lost its place in line");
            verdict = self.resend().await;
        }
    }

    /// Waits without looking. The claim must learn of its grant soon.
    pub async fn wakes_with_its_grant(&self, seen: Revision) -> u64 {
        let start = self.client.clock.now();
        loop {
            let left = SOON.saturating_sub(self.client.clock.now().saturating_since(start));
            assert!(!left.is_zero(), "nobody told it that it was granted");
            match self.wait(seen, left).await {
                Wake::Granted { token } => return token,
                // One wake-up too many costs nothing, but a wake-up must not stand in for the
                // grant.
                Wake::Changed => self.client.clock.sleep(Duration::from_millis(20)).await,
                Wake::Elapsed => {}
            }
        }
    }

    /// Waits in line as the engine does, and claims again when the wait ends, but renews nothing
    /// and looks for nothing by itself. The claim must learn of its grant soon.
    pub async fn learns_of_its_grant(&self) -> u64 {
        let start = self.client.clock.now();
        loop {
            let seen = match self.resend().await {
                Verdict::Granted { token, .. } => return token,
                Verdict::Queued { seen, .. } => seen,
                other => panic!("lost its place in line: {other:?}"),
            };
            let left = SOON.saturating_sub(self.client.clock.now().saturating_since(start));
            match self.wait(seen, left).await {
                Wake::Granted { token } => return token,
                Wake::Changed => {}
                Wake::Elapsed => panic!("nobody told it that it was granted"),
            }
        }
    }

    /// Waits for news of this claim.
    pub async fn wait(&self, seen: Revision, within: Duration) -> Wake {
        self.wakes(Interest::Claim(&self.claim.key), seen, within).await
    }

    /// Waits until the line is no longer at the revision `seen`. Panics if the wait does not report
    /// a change.
    pub async fn wakes_at_a_change(&self, seen: Revision) {
        let name = &self.claim.key.name;
        let wake = self.wakes(Interest::Name(name), seen, SOON).await;
        assert_eq!(wake, Wake::Changed, "nobody told it that the line has changed");
    }

    async fn wakes(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Wake {
        self.patiently(|| self.client.store.wait(interest, seen, within)).await.expect("a wake-up")
    }

    async fn patiently<T, F: Future<Output = Result<T>>>(&self, ask: impl Fn() -> F) -> Result<T> {
        patiently(&self.client.clock, ask).await
    }

    /// Renews this claim alone.
    pub async fn renew(&self) -> Result<Renewal> {
        self.renew_as(LiveState::Granted).await
    }

    /// Renews this claim alone, in this state.
    pub async fn renew_as(&self, state: LiveState) -> Result<Renewal> {
        let sent = self.client.clock.now();
        let mut answers = self.client.renew(&[self.live(state)]).await?.claims;
        assert_eq!(answers.len(), 1, "one answer for one claim");
        let answer = answers.remove(0);
        if matches!(answer, Renewal::Held { .. } | Renewal::Queued) {
            self.proofs.lock().unwrap().push(sent);
        }
        Ok(answer)
    }

    /// Renews this claim alone, and tries again while the store does not answer.
    pub async fn renewed(&self) -> Result<Renewal> {
        self.renewed_as(LiveState::Granted).await
    }

    /// Renews this claim alone in this state, and tries again while the store does not answer.
    pub async fn renewed_as(&self, state: LiveState) -> Result<Renewal> {
        self.patiently(|| self.renew_as(state)).await
    }

    /// Renews this claim, which must hold the lock, and returns its token.
    pub async fn held(&self) -> u64 {
        match self.renewed().await.expect("an answer") {
            Renewal::Held { token, .. } => token,
            other => panic!("expected to hold, not {other:?}"),
        }
    }

    /// Renews this claim, and returns whether the store no longer knows the claim or its session.
    pub async fn is_lost(&self) -> bool {
        match self.renewed().await {
            Ok(renewal) => matches!(renewal, Renewal::Lost(_)),
            Err(error) if error.kind() == ErrorKind::SessionLost => true,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// This claim for a renewal.
    pub fn live(&self, state: LiveState) -> Live {
        Live { key: self.claim.key.clone(), state }
    }

    /// Withdraws the claim.
    pub async fn withdraw(&self) -> Withdrawal {
        self.withdraw_as(None).await
    }

    /// Withdraws the claim with a tombstone, as if its outcome was unknown.
    pub async fn withdraw_unsettled(&self) -> Withdrawal {
        self.withdraw_as(Some(TOMBSTONE_MIN)).await
    }

    async fn withdraw_as(&self, tombstone: Option<Duration>) -> Withdrawal {
        self.patiently(|| self.client.store.withdraw(&self.claim.key, tombstone))
            .await
            .expect("an answer")
    }

    /// Releases the lock, which the claim must hold.
    pub async fn release(&self) {
        assert_eq!(self.withdraw().await, Withdrawal::Removed);
    }

    /// Changes the claim, with the next number.
    pub async fn amend(&self, change: Amend) -> Amended {
        self.amend_as(self.changes.fetch_add(1, Ordering::Relaxed) + 1, change).await
    }

    /// Changes the claim, with this number.
    pub async fn amend_as(&self, number: u64, change: Amend) -> Amended {
        self.patiently(|| self.client.store.amend(&self.claim.key, number, &change))
            .await
            .expect("an answer")
    }

    /// The line as this client sees it.
    pub async fn line(&self) -> Line {
        self.patiently(|| self.client.store.line(&self.claim.key.name)).await.expect("a line")
    }

    /// Asserts that the line is these claims in this order, and that the first `holders` of them
    /// hold the lock.
    pub async fn sees(&self, line: &[&Self], holders: usize) {
        let seen: Vec<_> = self.line().await.entries.iter().map(|e| (e.id, e.granted)).collect();
        let expected: Vec<_> =
            line.iter().enumerate().map(|(i, c)| (c.id(), i < holders)).collect();
        assert_eq!(seen, expected, "the line, and who holds");
    }
}
