//! The etcd store: consensus, leases, revisions, watches. It needs etcd 3.5.14 or newer; see `lockkeeper::doctor`
//! for what older versions do to leases.
//!
//! A claim is a key on the lease of its session. The revision that created the key is the claim's place in line and its
//! token. Locks live as long as a majority of the members keeps its data: neither a restart nor a change of the leader
//! loses a lock.
//!
//! The algorithm is that of Go's `concurrency` package, run by the client, with four additions:
//! - A waiter looks at its own key after every wait.
//! - Every release names one claim and no other.
//! - A waiter begins to wait with a watch that etcd serves at once.
//! - A renewal asks for the keys of its claims.
#![forbid(unsafe_code)]

mod admin;
mod amend;
mod builder;
#[doc(hidden)]
pub mod checks;
mod claiming;
mod compare;
mod doctor;
mod driver;
mod fault;
mod grants;
mod keep;
mod layout;
mod leases;
mod marker;
mod notices;
mod order;
mod predecessors;
mod register;
mod renewals;
mod sessions;
mod slots;
mod status;
mod sweep;
mod timers;
mod wait;
mod wire;
mod withdraw;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use tokio::sync::Notify;

pub use self::builder::EtcdStoreBuilder;
pub use self::checks::Check;
pub use self::compare::EtcdCompare;
pub use self::driver::DRIVER;
use self::keep::unix_ms;
pub use self::layout::Layout;
use self::layout::transaction::all;
use self::layout::{Contender, Lines, admissions, mark};
use self::order::Order;
pub use self::register::EtcdRegister;
use self::sessions::Sessions;
use self::wire::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse,
};
use self::wire::{Calls, WireError};
use lockkeeper_core::runtime::Runtime;
use lockkeeper_core::store::{
    Admin, Admission, Amend, Amended, Capabilities, Claim, ClaimKey, Entry, Expiry, Interest, Line, Listeners, Live,
    Losses, Opened, Renewed, Revision, SessionId, SessionSpec, Store, Verdict, Wake, Withdrawal,
};
use lockkeeper_core::time::Clock;
use lockkeeper_core::url::StoreUrl;
use lockkeeper_core::{
    Effect, Error, ErrorKind, LockName, Open, Result, Secret, Tls, duration, name, net, random, registers, runtime,
    store, time, url,
};

/// What it can do in its own layout.
const CAPABILITIES: Capabilities = Capabilities {
    expiry: Expiry::Session { proof_lag: 0, resumable: true },
    // Half again the time after which a leader is replaced, with etcd's settings as they come.
    ttl_min: Duration::from_secs(2),
    max_waiters: 10_000,
    ..Capabilities::full()
};

/// What it can do where others take part.
const SHARED_CAPABILITIES: Capabilities =
    Capabilities { admission: Admission::Exclusive, min_hold_max: Duration::ZERO, ..CAPABILITIES };

/// How long to wait for members that have no leader.
const ELECTION: Duration = Duration::from_millis(100);
/// How long a member that does not answer keeps a store from being opened.
const A_LOOK: Duration = Duration::from_secs(1);
/// Of how many leases of a line is asked how long they last.
const LEASES: usize = 8;
/// Of how many leases is asked at the same time.
const ASKED_TOGETHER: usize = 64;

/// A store on etcd. Clones share its connections.
///
/// ```no_run
/// use lockkeeper::{EtcdStore, Keeper, Secret};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = EtcdStore::new(["e1", "e2", "e3"]).user("app").password(Secret::new("hunter2"));
/// let keeper = Keeper::builder(store).connect().await?;
/// let guard = keeper.mutex("deploy")?.lock().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EtcdStore(Arc<Shared>);

struct Shared {
    calls: Arc<Calls>,
    lines: Lines,
    sessions: Sessions,
    order: Arc<Order>,
    /// What this client is called where it is told of its claims.
    client: Arc<str>,
    address: String,
    timeout: Duration,
    waived: Vec<Check>,
    /// The prefix says which layout its claims have.
    is_marked: AtomicBool,
    clock: Clock,
    process: u32,
    runtime: Runtime,
    losses: Listeners,
    listening: AtomicBool,
    /// Notified when a claim of this client was changed from outside, whichever claim.
    notices: Notify,
}

impl EtcdStore {
    /// The store on the cluster with these members, each `HOST` or `HOST:PORT`.
    #[allow(clippy::new_ret_no_self, reason = "what is new is how to open one, as with every store")]
    pub fn new<H: AsRef<str>>(members: impl IntoIterator<Item = H>) -> EtcdStoreBuilder {
        EtcdStoreBuilder::new(members)
    }

    /// A builder for the store that a URL names: `etcd://`, and `etcds://` for TLS.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a URL of another scheme, or one whose parts do not fit together.
    pub fn from_url(url: &StoreUrl) -> Result<EtcdStoreBuilder> {
        EtcdStoreBuilder::from_url(url)
    }

    async fn open(builder: EtcdStoreBuilder) -> Result<Self> {
        let connecting = async {
            let store = Self::unasked(&builder)?;
            store.try_each_member().await?;
            store.check_members().await?;
            store.check_layout().await?;
            Ok(store)
        };
        connecting.await.map_err(|error: Error| error.at(&builder.to_string()))
    }

    fn can(&self) -> Capabilities {
        match self.0.lines.layout {
            Layout::Native => CAPABILITIES,
            Layout::Concurrency => SHARED_CAPABILITIES,
        }
    }

    /// Before anybody was asked.
    fn unasked(builder: &EtcdStoreBuilder) -> Result<Self> {
        let lines = builder.lines();
        lines.check()?;
        Ok(Self(Arc::new(Shared {
            calls: Calls::new(builder.addresses(), builder.settings()?)?,
            lines,
            sessions: Sessions::default(),
            order: Arc::default(),
            client: HEXLOWER.encode(&random::bits128()).into(),
            address: builder.to_string(),
            timeout: builder.timeout,
            waived: builder.waived.clone(),
            is_marked: AtomicBool::new(false),
            clock: Clock::boot(),
            process: std::process::id(),
            runtime: Runtime::here_or_own()?,
            losses: Listeners::default(),
            listening: AtomicBool::new(false),
            notices: Notify::new(),
        })))
    }

    /// Whether one of the members answers, and a majority with it. While they are about to find a leader they are asked
    /// again, for as long as a request may take.
    async fn try_each_member(&self) -> Result<()> {
        let until = self.0.clock.now() + self.0.timeout;
        loop {
            let (mut last, mut is_there) = (Ok(()), false);
            for _ in self.0.calls.addresses() {
                last = self.try_one().await;
                match &last {
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        is_there |= error.effect() == Effect::Unknown
                    }
                    _ => return last,
                }
            }
            if !is_there || self.0.clock.now() >= until {
                return last.map_err(Error::without_effect);
            }
            self.0.clock.sleep(ELECTION).await;
        }
    }

    /// Looks at each member that answers.
    async fn check_members(&self) -> Result<()> {
        let asked = self.0.calls.ask_each("/etcdserverpb.Maintenance/Status", StatusRequest {}, A_LOOK).await;
        let asked: Vec<(String, Result<StatusResponse, WireError>)> = asked;
        let answers: Vec<_> =
            asked.iter().filter_map(|(at, status)| Some((at.as_str(), status.as_ref().ok()?))).collect();
        checks::refuse(&answers, &self.0.waived)
    }

    async fn try_one(&self) -> Result<()> {
        self.0.calls.log_in().await.map_err(fault::of)?;
        let nothing = RangeRequest { key: self.0.lines.notice(&self.0.client), ..RangeRequest::default() };
        let asked = self.0.calls.ask("/etcdserverpb.KV/Range", nothing).await;
        asked.map(|_: RangeResponse| ()).map_err(fault::of)
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        let asked = self.0.calls.ask("/etcdserverpb.KV/Range", request).await;
        asked.map_err(|error| fault::of(error).without_effect())
    }

    /// A new lease.
    async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse> {
        // A name of our own would make it possible to ask again; but one that nobody knows of ends by itself.
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseGrant", request).await;
        asked.map_err(fault::of)
    }

    async fn revoke(&self, lease: i64) -> Result<()> {
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id: lease }).await;
        match asked.map(|_: LeaseRevokeResponse| ()) {
            Err(error) if error.is_no_lease() => Ok(()),
            revoked => revoked.map_err(fault::of),
        }
    }

    /// How long the leases last on which the holders of these lines depend: those that they are on, so many of them, and those
    /// of their sessions where only a minimum hold may be left. `None` for one that is not there.
    async fn lease_ttls<'a>(
        &self,
        lines: impl Iterator<Item = &'a [Contender]>,
        most: usize,
    ) -> HashMap<i64, Option<Duration>> {
        let (mut on, mut sessions) = (BTreeSet::new(), BTreeSet::new());
        for (holder, _) in lines.flat_map(|line| admissions(line).take_while(|(_, admitted)| *admitted)) {
            if on.len() < most {
                on.insert(holder.lease);
            }
            sessions.extend(holder.session_to_ask());
        }
        let leases: Vec<i64> = on.union(&sessions).copied().collect();
        let mut ttls = HashMap::with_capacity(leases.len());
        for leases in leases.chunks(ASKED_TOGETHER) {
            let asked = wire::all(leases.iter().map(|lease| self.left_of(*lease))).await;
            ttls.extend(leases.iter().zip(asked).filter_map(|(lease, ttl)| Some((*lease, ttl.ok()?))));
        }
        ttls
    }

    /// Connections are shared with the process that was forked from.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.0.process {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Forked, format!("{self} was opened by the process that this one was forked from"))
            .with_remedy("open a store after the fork"))
    }
}

impl fmt::Display for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.address)
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.0.address).finish()
    }
}

/// The line, as the contract reports it, of what was read at this revision.
fn to_line(found: &[Contender], revision: i64, ttls: &HashMap<i64, Option<Duration>>) -> Line {
    let now = unix_ms();
    let entry = |(contender, granted): (&Contender, bool)| {
        let ttl = ttls.get(&contender.lease).copied().flatten();
        let is_gone = contender.session_to_ask().is_some_and(|session| ttls.get(&session) == Some(&None));
        // Cut to whole seconds: the middle of what it can be.
        let ttl = ttl.map(|ttl| ttl + Duration::from_millis(500));
        contender.entry(granted, contender.is_released() || is_gone, ttl, now)
    };
    Line {
        revision: mark(found, revision),
        last_token: admissions(found).take_while(|(_, granted)| *granted).map(|(holder, _)| holder.token()).max(),
        entries: admissions(found).map(entry).collect::<Vec<Entry>>(),
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn capabilities(&self) -> Capabilities {
        self.can()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, spec: &SessionSpec) -> Result<Opened> {
        self.check_process()?;
        self.capabilities().check(spec)?;
        self.mark_layout().await?;
        let (asked, sent) = (sessions::seconds(spec.ttl + spec.lock_delay), self.0.clock.now());
        let LeaseGrantResponse { id: lease, ttl: granted, .. } = self.grant(asked).await?;
        if granted < asked {
            return Err(Error::new(ErrorKind::Unsupported, format!("etcd grants {granted} s instead of {asked} s"))
                .with_remedy("a shorter ttl"));
        }
        let id = sessions::name_of(lease);
        self.0.sessions.opened(id.clone(), spec, lease, sent);
        self.begin_to_listen();
        Ok(Opened { id, ttl: spec.ttl })
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        self.check_process()?;
        renewals::renew(self, session, live).await
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.check_process()?;
        let (session, id) = (self.0.sessions.get(session)?, session);
        // What is made for it at this moment is ended too, and nothing is made after that.
        let mut is_closed = session.gate.lock().await;
        *is_closed = true;
        let leases = session.leases();
        let elsewhere = self.not_on(&session, id, &leases, live).await?;
        for withdrawn in wire::all(elsewhere.iter().map(|key| self.withdraw(key, None))).await {
            withdrawn?;
        }
        for lease in leases {
            self.revoke(lease).await?;
        }
        self.0.sessions.forget(id);
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.check_process()?;
        claiming::claim(self, claim).await
    }

    async fn amend(&self, key: &ClaimKey, change: &Amend) -> Result<Amended> {
        self.check_process()?;
        amend::amend(self, key, change).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        self.check_process()?;
        withdraw::withdraw(self, key, tombstone).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        self.check_process()?;
        match interest {
            Interest::Claim(key) => wait::claim(self, key, within).await,
            Interest::Name(name) => wait::name(self, name, seen, within).await,
        }
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        self.check_process()?;
        let line = self.0.lines.of(name);
        let answer = self.range(all(&line)).await?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        let found = Contender::all(&self.0.lines, &line, answer.kvs);
        let ttls = self.lease_ttls(std::iter::once(&*found), LEASES).await;
        Ok(to_line(&found, revision, &ttls))
    }

    fn fence_key(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        let session = self.0.sessions.get(&key.session).ok()?;
        Some(compare::fence_key(&session.slot_of(&self.0.lines, key).at))
    }

    fn on_loss(&self, listener: Losses) {
        self.0.losses.add(listener);
    }
}
