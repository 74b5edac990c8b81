//! The Redis store: one server, a master behind Sentinels, or a Cluster; Redis from 6.2 on, and Valkey.
//!
//! Every operation is one script: the server does it completely or not at all, in the order in which a client sends its
//! requests. While a lock has no waiters, it is one key. A release grants the lock to the next waiter and sends that
//! waiter a message. So a hand-off takes half a round trip, and wakes no other waiter.
//!
//! Locks live in the memory of one server. If the server loses that memory (a restart without persistence, a failover
//! to a replica that lags), it may grant a lock that another client still holds. Tokens rise all the same, since they
//! begin at the server's clock. So a fenced resource refuses the older holder.
#![forbid(unsafe_code)]

mod admin;
mod builder;
#[doc(hidden)]
pub mod checks;
mod doctor;
mod driver;
mod fault;
mod layout;
mod long;
mod opening;
mod register;
mod renewals;
mod replicas;
mod rights;
mod route;
mod servers;
mod session_claims;
#[doc(hidden)]
pub mod transactions;
mod wait;
mod waiting_claims;
mod watched_names;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

pub use self::builder::RedisStoreBuilder;
use self::builder::Topology;
pub use self::checks::Check;
pub use self::driver::DRIVER;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use self::layout::check;
use self::layout::{ClientId, Keys};
pub use self::register::RedisRegister;
use self::route::Fallback;
use self::servers::{Said, Servers};
use self::session_claims::SessionClaims;
use self::wait::PushListener;
use self::waiting_claims::WaitingClaims;
use self::watched_names::WatchedNames;
use self::wire::Request;
use lockkeeper_core::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimId, ClaimKey, Fencing, Interest, Line, Listeners, Live, LiveState,
    Losses, Opened, Renewal, Renewed, Revision, SessionId, SessionSpec, Store, TOMBSTONE_MIN, Verdict, Wake,
    Withdrawal,
};
use lockkeeper_core::time::Clock;
use lockkeeper_core::url::StoreUrl;
use lockkeeper_core::{
    Error, ErrorKind, FencingToken, LockName, Open, Result, Secret, Sequencer, Tls, duration, marks, name, net, random,
    registers, runtime, store, time, url,
};

/// How long all nodes of a cluster may take to answer a renewal of claims that this client did not make; for its own a
/// quarter of their ttl, which leaves time for another one.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// What it can do.
const CAPABILITIES: Capabilities = Capabilities { fencing: Fencing::UntilFailover, ..Capabilities::full() };

/// A store on Redis or Valkey. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::{Keeper, RedisStore, Secret};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = RedisStore::sentinel(["s1", "s2", "s3"], "mymaster").password(Secret::new("hunter2"));
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore(Arc<Shared>);

struct Shared {
    servers: Arc<Servers>,
    pushed: Arc<PushState>,
    session_claims: SessionClaims,
    client: ClientId,
    address: String,
    /// Of transactions that have ended.
    idle: transactions::Idle,
    /// What the latest change of a claim was numbered.
    changes: AtomicU64,
    clock: Clock,
    process: u32,
    one_clock: bool,
}

/// What the servers have pushed.
#[derive(Debug, Default)]
struct PushState {
    waiting: WaitingClaims,
    names: WatchedNames,
    losses: Listeners,
}

impl RedisStore {
    /// The store on one server, `HOST` or `HOST:PORT`.
    pub fn standalone(host: impl AsRef<str>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Topology::Standalone, [host])
    }

    /// The store on the master that these Sentinels know by the name `master`.
    pub fn sentinel<H: AsRef<str>>(
        sentinels: impl IntoIterator<Item = H>,
        master: impl Into<String>,
    ) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Topology::Sentinel(master.into()), sentinels)
    }

    /// The store on a Cluster with these nodes; some of its nodes are enough. All keys of a name are in one slot.
    pub fn cluster<H: AsRef<str>>(nodes: impl IntoIterator<Item = H>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(Topology::Cluster, nodes)
    }

    /// A builder for the store that a URL names: `redis://`, `redis+sentinel://`, `redis+cluster://`, and the same with
    /// `rediss` for TLS.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a URL of another scheme, or one whose parts do not fit together.
    pub fn from_url(url: &StoreUrl) -> Result<RedisStoreBuilder> {
        RedisStoreBuilder::from_url(url)
    }

    async fn open(builder: RedisStoreBuilder) -> Result<Self> {
        let address = builder.to_string();
        Self::connect(builder, &address).await.map_err(|error| error.at(&address))
    }

    async fn connect(builder: RedisStoreBuilder, address: &str) -> Result<Self> {
        let client = ClientId::random();
        let pushed = Arc::<PushState>::default();
        let servers = Servers::open(&builder, client, Arc::new(PushListener::new(&pushed))).await?;
        opening::check(&servers, &builder).await?;
        Ok(Self(Arc::new(Shared {
            servers,
            pushed,
            session_claims: SessionClaims::default(),
            idle: transactions::Idle::default(),
            client,
            address: address.to_owned(),
            changes: AtomicU64::new(0),
            clock: Clock::boot(),
            process: std::process::id(),
            one_clock: builder.topology != Topology::Cluster,
        })))
    }

    /// Sends a request about a line to the server of its keys; it has its place in the order when this returns.
    fn ask(&self, name: &LockName, request: Request) -> Result<impl Future<Output = Result<Said>> + Send + use<>> {
        self.ask_or(name, request, |_: usize| None)
    }

    /// The same for a request that has other forms, with fewer keys, for as long as its slot is on its way.
    fn ask_or<F: Fallback>(
        &self,
        name: &LockName,
        request: Request,
        fallback: F,
    ) -> Result<impl Future<Output = Result<Said>> + Send + use<F>> {
        self.check_process()?;
        let keys = Keys::of(name);
        let answer = self.0.servers.send(keys.slot(), request, fallback);
        Ok(async move { answer.await.map_err(|error| fault::about(error, &keys.shown())) })
    }

    /// Connections are shared with the process that was forked from.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.0.process {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Forked, format!("{self} was opened by the process that this one was forked from"))
            .with_remedy("open a store after the fork"))
    }

    /// The number of the next change that this client makes.
    fn next_change(&self) -> u64 {
        self.0.changes.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0.address).finish()
    }
}

#[async_trait]
impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, session: &SessionSpec) -> Result<Opened> {
        self.capabilities().check(session)?;
        let id = SessionId::random();
        self.0.session_claims.open(&id, session);
        Ok(Opened { id, ttl: session.ttl })
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let ttl = self.0.session_claims.renew(session, live.iter().map(|live| &live.key.id), self.0.clock.now());
        let mut claims = vec![Renewal::Unknown; live.len()];
        let (mut server_time, mut requests) = (None, Vec::new());
        let (mut failed, mut answered) = (None, false);
        for (at, renewed) in renewals::each(self, live, ttl.map_or(TIME_LIMIT, |ttl| ttl / 4)).await {
            match renewed {
                Ok(renewed) => {
                    answered = true;
                    server_time = renewed.server_time;
                    requests.extend(renewed.requests);
                    for (at, renewal) in at.into_iter().zip(renewed.claims) {
                        claims[at] = renewal;
                    }
                }
                Err(error) => {
                    at.into_iter().for_each(|at| claims[at] = Renewal::Failed(error.clone()));
                    failed = Some(error);
                }
            }
        }
        let held = live.iter().zip(&claims).filter(|(_, renewal)| matches!(renewal, Renewal::Held { .. }));
        self.0.pushed.waiting.settled(held.map(|(live, _)| &live.key));
        match failed {
            // Where several have failed, each has a cause of its own.
            Some(error) if !answered && (live.len() == 1 || error.kind() == ErrorKind::Closed) => Err(error),
            _ => Ok(Renewed { claims, server_time: server_time.filter(|_| self.0.one_clock), requests }),
        }
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        let mut all: HashMap<ClaimId, (ClaimKey, Option<Duration>)> =
            self.0.session_claims.of(session).into_iter().map(|key| (key.id, (key, None))).collect();
        for live in live {
            // A copy of it may still be on its way.
            let tombstone = (live.state == LiveState::InFlight).then_some(TOMBSTONE_MIN);
            all.insert(live.key.id, (live.key.clone(), tombstone));
        }
        let mut sent = Vec::new();
        for (key, tombstone) in all.values() {
            self.0.pushed.waiting.left(key.id);
            let open = |nth: usize| if nth == 0 { layout::withdraw_open(key, *tombstone) } else { None };
            sent.push(self.ask_or(&key.name, layout::withdraw(key, *tombstone), open));
        }
        let mut closed = Ok(());
        for answer in sent {
            let withdrawn = match answer {
                Ok(answer) => answer.await.and_then(|said| said.read(layout::withdraw_answer)),
                Err(error) => Err(error),
            };
            closed = closed.and(withdrawn.map(drop));
        }
        closed?;
        self.0.session_claims.close(session);
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let (keys, waiting, servers) = (Keys::of(&claim.key.name), &self.0.pushed.waiting, &self.0.servers);
        let channel = servers.channel(&keys);
        let sent = waiting.asks(claim.key.id);
        self.0.session_claims.claim(claim, self.0.clock.now());
        let request = layout::claim(claim, &self.0.client, &channel);
        // Nobody would know of which node's replicas to ask.
        let may_be_open = !servers.needs_replicas();
        let open =
            move |nth: usize| (may_be_open && nth == 0).then(|| layout::claim_open(claim, &self.0.client, &channel));
        let said = self.ask_or(&claim.key.name, request, open)?.await?;
        let answer = said.read(|value| layout::claim_answer(claim, value))?;
        match answer.value {
            Verdict::Queued { .. } => {
                sent.queued(&claim.key, servers.listen(&keys));
            }
            Verdict::Granted { .. } => {
                waiting.left(claim.key.id);
                servers.replicated(&said.proof(), &keys).await?;
            }
            _ => {
                waiting.left(claim.key.id);
                self.0.session_claims.left(&claim.key);
            }
        }
        Ok(answer.value)
    }

    async fn amend(&self, key: &ClaimKey, change: &Amend) -> Result<Amended> {
        let request = layout::amend(key, change, &self.0.client, self.next_change());
        let said = self.ask(&key.name, request)?.await?;
        let amended = said.read(layout::amend_answer)?;
        if amended == Amended::Done && matches!(change, Amend::MinHold(_)) {
            // A minimum hold is a promise about the time after the holder; what a claim shows or gives up is none.
            self.0.servers.replicated(&said.proof(), &Keys::of(&key.name)).await?;
        }
        Ok(amended)
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        // Whatever comes of this, nobody waits for it any more.
        self.0.pushed.waiting.left(key.id);
        let request = layout::withdraw(key, tombstone).posted();
        let open = |nth: usize| if nth == 0 { layout::withdraw_open(key, tombstone) } else { None };
        let withdrawal = self.ask_or(&key.name, request, open)?.await?.read(layout::withdraw_answer)?;
        self.0.session_claims.left(key);
        Ok(withdrawal)
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        match interest {
            Interest::Claim(key) => wait::claim(self, key, within).await,
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        Ok(long::line(self, name, |value| layout::line_answer(name, value)).await?.value)
    }

    fn on_loss(&self, listener: Losses) {
        self.0.pushed.losses.add(listener);
    }
}
