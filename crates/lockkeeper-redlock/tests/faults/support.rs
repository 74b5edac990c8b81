//! Servers and clients of the tests.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, MAX, Meta, SessionId, SessionSpec, Store, Verdict,
};
use lockkeeper::{ErrorKind, Guard, Keeper, LockName, Result};
pub(crate) use lockkeeper_live::locks::{LONG, TIME_LIMIT, name, patiently, renewed, within};
use lockkeeper_live::{Proxy, Redis, Redlock, with};
use tokio::task::JoinHandle;

/// Short enough that a test can wait for its end.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// A busy machine takes longer than 50 ms to answer.
pub(crate) const SLOW: &str = "node-timeout=400ms";

/// A client of these servers.
pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    let url = with(url, SLOW);
    patiently(async || Keeper::from_url(&*url).unwrap().ttl(ttl).connect().await).await
}

/// Waits for the lock, and asks again while the store is unavailable.
pub(crate) async fn lock(keeper: &Keeper, name: &str) -> Guard {
    within(TIME_LIMIT, patiently(async || keeper.mutex(name).unwrap().lock().await)).await
}

/// A task that waits for the lock.
pub(crate) fn waiter(keeper: &Keeper, name: &str) -> JoinHandle<Guard> {
    tokio::spawn(waited_for(keeper.clone(), name.to_owned()))
}

/// As [`lock`], for a task.
pub(crate) async fn waited_for(keeper: Keeper, name: String) -> Guard {
    loop {
        match keeper.mutex(&*name).unwrap().lock().await {
            Ok(guard) => return guard,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

pub(crate) async fn tried(keeper: &Keeper, name: &str) -> Result<Option<Guard>> {
    keeper.mutex(name).unwrap().try_lock().await
}

/// So many servers, with a clock of its own each, behind a proxy each.
pub(crate) fn behind_proxies(nodes: usize) -> (Redlock, Vec<Proxy>) {
    let servers = Redlock::of(nodes, &Redis::builder().with_clock()).unwrap();
    let proxies = servers.nodes().iter().map(|node| Proxy::resp(node.address()).unwrap()).collect();
    (servers, proxies)
}

/// The key of the line of this lock.
pub(crate) fn line_key(name: &str) -> String {
    let name: lockkeeper::LockName = name.parse().unwrap();
    format!("lk:r:{{{}}}", name.encoded())
}

/// The holders of this lock on one server.
pub(crate) fn holders(node: &Redis, name: &str) -> Vec<Vec<u8>> {
    let fields: Vec<Vec<u8>> = node.query(&["HKEYS", &line_key(name)]).unwrap_or_default();
    fields.into_iter().filter(|field| field.first() == Some(&b'h')).collect()
}

/// How many of the servers have a holder of this lock.
pub(crate) fn holding(servers: &Redlock, name: &str) -> usize {
    servers.nodes().iter().filter(|node| !holders(node, name).is_empty()).count()
}

/// Waits until so many servers have a holder of this lock.
pub(crate) async fn until_holding(servers: &Redlock, name: &str, count: usize) {
    within(TIME_LIMIT, until(|| holding(servers, name) == count)).await;
}

/// Waits until so many clients wait for this lock on each of these servers.
pub(crate) async fn until_waiting(servers: &[Redis], count: u64, name: &str) {
    let key = line_key(name) + ":w";
    let waiting = |node: &Redis| node.query::<u64>(&["ZCARD", &key]).unwrap() == count;
    within(TIME_LIMIT, until(|| servers.iter().all(waiting))).await;
}

/// Waits until this is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How many scripts this server has run.
pub(crate) fn scripts_run(node: &Redis) -> u64 {
    let Ok(calls) = node.info("cmdstat_evalsha") else { return 0 };
    let (_, calls) = calls.split_once("calls=").unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// A client that claims and withdraws by hand.
pub(crate) struct ByHand {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: LockName,
    session: SessionId,
    spec: SessionSpec,
}

impl ByHand {
    /// A client at this URL, with a query, of the lock of this name.
    pub(crate) async fn connect(url: &str, name: &str) -> Self {
        let store = lockkeeper_live::locks::connected(url).await;
        let (session, spec) = (SessionId::random(), SessionSpec::new(LONG, Duration::ZERO));
        store.open(&session, &spec).await.unwrap();
        Self { store, name: name.parse().unwrap(), session, spec }
    }

    /// A new claim of a writer.
    pub(crate) fn writer(&self) -> Claim {
        self.with_id(ClaimId::random())
    }

    /// The claim of a writer with this id.
    pub(crate) fn with_id(&self, id: ClaimId) -> Claim {
        let key = ClaimKey { name: self.name.clone(), session: self.session.clone(), id };
        Claim { queue: false, ..Claim::exclusive(key, &self.spec) }
    }

    /// A new claim of a reader with this epoch.
    pub(crate) fn reader(&self, epoch: u16) -> Claim {
        Claim { weight: 1, meta: Meta { epoch, ..Meta::default() }, ..self.writer() }
    }

    /// A new claim of a writer in the place of this claim.
    pub(crate) fn writer_for(&self, reader: &Claim) -> Claim {
        Claim { weight: MAX, replaces: Some(reader.key.id), ..self.writer() }
    }

    /// The token of the claim, if it is granted.
    pub(crate) async fn token(&self, claim: &Claim) -> Option<u64> {
        match self.store.claim(claim).await.unwrap() {
            Verdict::Granted { token, .. } => Some(token),
            Verdict::Busy { .. } => None,
            other => panic!("{other:?}"),
        }
    }
}
