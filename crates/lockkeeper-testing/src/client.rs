//! Clients, each as if in a process of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Contender, Ttls};
use lockkeeper::store::{Claim, ClaimId, ClaimKey, Live, MAX, Renewed, SessionId, SessionSpec, Store, StoreId};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{ErrorKind, LockName, Result};

/// How soon a request is sent again that the store did not answer.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks again while the store does not answer: a busy machine may hold up a request for longer than it may take.
pub(super) async fn patiently<T, F: Future<Output = Result<T>>>(clock: &Clock, ask: impl Fn() -> F) -> Result<T> {
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
    /// When those requests were sent that the store has acknowledged as a renewal of the session.
    pub(super) proofs: Arc<Mutex<Vec<Instant>>>,
}

impl Client {
    pub(super) async fn open(store: Arc<dyn Store>, clock: Clock, ttls: Ttls) -> Self {
        let open = || Self::try_open(Arc::clone(&store), clock.clone(), ttls);
        patiently(&clock, open).await.expect("a session")
    }

    pub(super) async fn try_open(store: Arc<dyn Store>, clock: Clock, ttls: Ttls) -> Result<Self> {
        let sent = clock.now();
        let Ttls { ttl, wait_ttl, lock_delay } = ttls;
        let mut spec = SessionSpec::new(ttl, lock_delay);
        spec.wait_ttl = wait_ttl;
        let session = store.open(&spec).await?.id;
        Ok(Self { store, session, clock, ttls, proofs: Arc::new(Mutex::new(vec![sent])) })
    }

    /// One client with a session that outlives its process, which other clients may use.
    pub(super) async fn open_detached(store: Arc<dyn Store>, clock: Clock, ttls: Ttls) -> Self {
        let open = async || {
            let mut spec = SessionSpec::new(ttls.ttl, ttls.lock_delay);
            (spec.wait_ttl, spec.detached) = (ttls.wait_ttl, true);
            let sent = clock.now();
            let session = store.open(&spec).await?.id;
            let (store, clock, proofs) = (Arc::clone(&store), clock.clone(), Arc::new(Mutex::new(vec![sent])));
            Ok(Self { store, session, clock, ttls, proofs })
        };
        patiently(&clock, || open()).await.expect("a session")
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
        let key = ClaimKey { name: name.clone(), session: self.session.clone(), id: ClaimId::random() };
        let Ttls { ttl, wait_ttl, lock_delay } = self.ttls;
        let claim = Claim { wait_ttl, weight, capacity, ..Claim::exclusive(key, &SessionSpec::new(ttl, lock_delay)) };
        Contender::new(self.clone(), claim)
    }
}
