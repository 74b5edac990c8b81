//! Clients, each as if in a process of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Contender, Ttls};
use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Live, MAX, Renewed, SessionId, SessionSpec, Store, StoreId,
};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{ErrorKind, LockName, Result};

/// The pause before a request without an answer is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// Repeats a request while the store does not answer. On a busy machine a request may miss its
/// limit.
pub(super) async fn patiently<T, F: Future<Output = Result<T>>>(
    clock: &Clock,
    ask: impl Fn() -> F,
) -> Result<T> {
    loop {
        match ask().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => clock.sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

/// One client with a session.
#[derive(Clone, Debug)]
pub struct Client {
    /// The connection of the client.
    pub store: Arc<dyn Store>,
    /// The session of the client.
    pub session: SessionId,
    pub(super) clock: Clock,
    pub(super) ttls: Ttls,
    pub(super) detached: bool,
    /// The times at which the client sent each request that the store acknowledged as a renewal of
    /// the session.
    pub(super) proofs: Arc<Mutex<Vec<Instant>>>,
}

impl Client {
    pub(super) async fn open(store: Arc<dyn Store>, clock: Clock, ttls: Ttls) -> Self {
        Self::open_as(store, clock, ttls, false).await
    }

    /// Opens a session, which may be detached.
    pub(super) async fn open_as(
        store: Arc<dyn Store>,
        clock: Clock,
        ttls: Ttls,
        detached: bool,
    ) -> Self {
        let open = || Self::try_open(Arc::clone(&store), clock.clone(), ttls, detached);
        patiently(&clock, open).await.expect("a session")
    }

    pub(super) async fn try_open(
        store: Arc<dyn Store>,
        clock: Clock,
        ttls: Ttls,
        detached: bool,
    ) -> Result<Self> {
        let client = Self {
            store,
            session: SessionId::random(),
            clock,
            ttls,
            detached,
            proofs: Arc::default(),
        };
        client.opens().await?;
        Ok(client)
    }

    async fn opens(&self) -> Result<()> {
        let sent = self.clock.now();
        self.store.open(&self.session, &self.spec()).await?;
        self.proofs.lock().unwrap().push(sent);
        Ok(())
    }

    /// The settings of the session.
    pub fn spec(&self) -> SessionSpec {
        let Ttls { ttl, wait_ttl, lock_delay } = self.ttls;
        SessionSpec { wait_ttl, detached: self.detached, ..SessionSpec::new(ttl, lock_delay) }
    }

    /// Opens the session with the same id and the same durations once more.
    pub async fn opened_again(&self) -> Result<()> {
        patiently(&self.clock, || self.opens()).await
    }

    /// The same session through another connection, which has not opened it.
    pub(super) fn beside(&self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self.clone() }
    }

    /// Closes the session.
    pub async fn close(&self, live: &[Live]) {
        patiently(&self.clock, || self.store.close(&self.session, live))
            .await
            .expect("it is closed");
    }

    /// Another session on the same connection.
    pub async fn another_session(&self) -> Self {
        Self::open(Arc::clone(&self.store), self.clock.clone(), self.ttls).await
    }

    /// The id of the store.
    pub async fn identity(&self) -> StoreId {
        patiently(&self.clock, || self.store.id()).await.expect("an id")
    }

    /// A claim of a mutex, or of a writer.
    pub fn mutex(&self, name: &LockName) -> Contender {
        self.contender(name, MAX, MAX)
    }

    /// A claim of a reader.
    pub fn reader(&self, name: &LockName) -> Contender {
        self.contender(name, 1, MAX)
    }

    /// A claim of `weight` permits of `of`.
    pub fn permits(&self, name: &LockName, weight: u32, of: u32) -> Contender {
        self.contender(name, weight, of)
    }

    /// Renews the session with these claims.
    pub async fn renew(&self, live: &[Live]) -> Result<Renewed> {
        let sent = self.clock.now();
        let renewed = self.store.renew(&self.session, live).await?;
        self.proofs.lock().unwrap().push(sent);
        Ok(renewed)
    }

    fn contender(&self, name: &LockName, weight: u32, capacity: u32) -> Contender {
        let key =
            ClaimKey { name: name.clone(), session: self.session.clone(), id: ClaimId::random() };
        let Ttls { ttl, wait_ttl, lock_delay } = self.ttls;
        let claim = Claim {
            wait_ttl,
            weight,
            capacity,
            ..Claim::exclusive(key, &SessionSpec::new(ttl, lock_delay))
        };
        Contender::new(self.clone(), claim)
    }
}
