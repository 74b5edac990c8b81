//! A store that records its requests, and answers in another way if a rule says so.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::layer::Operation;
use lockkeeper::store::{
    self, Amend, Amended, Broken, Capabilities, Claim, ClaimId, ClaimKey, Expiry, Interest, Line,
    Live, LiveState, Losses, Opened, Renewal, Renewed, Revision, SessionId, SessionSpec, Store,
    Verdict, Wake, Withdrawal, forward_store,
};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{Error, ErrorKind, Event, Keeper, KeeperBuilder, LockName, MemoryStore, Result};

/// A request that the store has received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) at: Instant,
    /// The claims of the request.
    pub(crate) ids: Vec<ClaimId>,
    pub(crate) names: Vec<LockName>,
    pub(crate) states: Vec<LiveState>,
    pub(crate) resend: bool,
    pub(crate) tombstone: Option<Duration>,
}

/// The effect of a rule on a request.
#[derive(Clone)]
pub(crate) enum Do {
    /// The call runs before the request is processed.
    First(Arc<dyn Fn() + Send + Sync>),
    /// The request is processed after this time.
    Slow(Duration),
    /// The request is processed, and the answer takes this long.
    Late(Duration),
    /// The request never arrives, and no answer comes.
    Hang,
    /// The request is not processed.
    Fail(ErrorKind),
    /// The request is not processed, and the error comes only after this time.
    FailAfter(Duration, ErrorKind),
    /// The request is processed, and the answer is lost.
    LoseReply,
    /// The claim is answered like this, and not processed.
    Say(Verdict),
    /// The renewal is processed, and answered like this.
    Answer(Vec<Renewal>),
    /// The answer to the renewal has this time of the server's clock.
    Time(Duration),
}

type Rule = Box<dyn FnMut(&Asked) -> Option<Do> + Send>;

pub(crate) struct Spy {
    right: MemoryStore,
    clock: Clock,
    asked: Mutex<Vec<Asked>>,
    rules: Mutex<Vec<Rule>>,
    can: Mutex<Capabilities>,
    listener: Mutex<Option<Losses>>,
    /// The granted ttl, in place of every requested ttl.
    ttl: Mutex<Option<Duration>>,
    /// The line that the next look gets in place of the real line.
    stale: Mutex<Option<Line>>,
}

impl Spy {
    pub(crate) fn rule(&self, rule: impl FnMut(&Asked) -> Option<Do> + Send + 'static) {
        self.rules.lock().unwrap().push(Box::new(rule));
    }

    /// Applies `what` to every request of this kind from now on.
    pub(crate) fn always(&self, operation: Operation, what: Do) {
        self.rule(move |asked| (asked.operation == operation).then(|| what.clone()));
    }

    /// Applies `what` to the next request of this kind.
    pub(crate) fn once(&self, operation: Operation, what: Do) {
        let mut left = Some(what);
        self.rule(move |asked| if asked.operation == operation { left.take() } else { None });
    }

    /// Shows this line to the next look, like a replica that lags behind.
    pub(crate) fn shows_once(&self, line: Line) {
        *self.stale.lock().unwrap() = Some(line);
    }

    /// Whether a look has got the line.
    pub(crate) fn has_shown(&self) -> bool {
        self.stale.lock().unwrap().is_none()
    }

    /// Reports a new connection to the keeper.
    pub(crate) fn reconnect(&self) {
        assert!(self.is_listened_to(), "the keeper listens");
    }

    /// Reports to the keeper that this claim was broken.
    pub(crate) fn report_broken(&self, id: ClaimId, broken: Broken) {
        let listener = self.listener.lock().unwrap().clone();
        assert!(listener.unwrap().lost(id, Some(broken)), "the keeper listens");
    }

    /// Whether a keeper listens to the reports.
    pub(crate) fn is_listened_to(&self) -> bool {
        self.listener.lock().unwrap().as_ref().unwrap().reconnected()
    }

    /// Reports to the keeper that somebody asks for this claim.
    pub(crate) fn report_asked(&self, id: ClaimId, by: &store::Asked) {
        let listener = self.listener.lock().unwrap().clone();
        assert!(listener.unwrap().requested(id, by), "the keeper listens");
    }

    pub(crate) fn no_rules(&self) {
        self.rules.lock().unwrap().clear();
    }

    pub(crate) fn asked(&self, operation: Operation) -> Vec<Asked> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| asked.operation == operation)
            .cloned()
            .collect()
    }

    pub(crate) fn last(&self, operation: Operation) -> Asked {
        self.asked(operation).pop().expect("it was asked")
    }

    fn note(
        &self,
        operation: Operation,
        keys: &[&ClaimKey],
        more: impl FnOnce(&mut Asked),
    ) -> Option<Do> {
        let mut asked = Asked {
            operation,
            at: self.clock.now(),
            ids: keys.iter().map(|key| key.id).collect(),
            names: keys.iter().map(|key| key.name.clone()).collect(),
            states: Vec::new(),
            resend: false,
            tombstone: None,
        };
        more(&mut asked);
        let found = self.rules.lock().unwrap().iter_mut().find_map(|rule| rule(&asked));
        self.asked.lock().unwrap().push(asked);
        found
    }

    async fn send<T>(&self, what: Option<Do>, call: impl Future<Output = Result<T>>) -> Result<T> {
        match what {
            Some(Do::Fail(kind)) => Err(Error::new(kind, "the spy refuses")),
            Some(Do::FailAfter(time, kind)) => {
                self.clock.sleep(time).await;
                Err(Error::new(kind, "the spy refuses").with_remedy("the spy"))
            }
            Some(Do::Hang) => std::future::pending().await,
            Some(Do::First(first)) => {
                first();
                call.await
            }
            Some(Do::Slow(by)) => {
                self.clock.sleep(by).await;
                call.await
            }
            Some(Do::Late(by)) => {
                let answer = call.await;
                self.clock.sleep(by).await;
                answer
            }
            Some(Do::LoseReply) => {
                let _ = call.await;
                Err(Error::new(ErrorKind::Unavailable, "the spy keeps the answer")
                    .with_unknown_effect())
            }
            _ => call.await,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Spy {
    fn capabilities(&self) -> Capabilities {
        self.can.lock().unwrap().clone()
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let what = self.note(Operation::Open, &[], |_| ());
        let mut opened = self.send(what, self.right.open(id, spec)).await?;
        opened.ttl = self.ttl.lock().unwrap().unwrap_or(opened.ttl);
        Ok(opened)
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let keys: Vec<&ClaimKey> = live.iter().map(|live| &live.key).collect();
        let states = live.iter().map(|live| live.state).collect();
        let what = self.note(Operation::Renew, &keys, |asked| asked.states = states);
        let mut renewed = self.send(what.clone(), self.right.renew(session, live)).await?;
        match what {
            Some(Do::Answer(claims)) => renewed.claims = claims,
            Some(Do::Time(time)) => renewed.server_time = Some(time),
            _ => {}
        }
        Ok(renewed)
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        let what = self.note(Operation::Close, &[], |_| ());
        self.send(what, self.right.close(session, live)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        match self.note(Operation::Claim, &[&claim.key], |asked| asked.resend = claim.resend) {
            Some(Do::Say(verdict)) => Ok(verdict),
            what => self.send(what, self.right.claim(claim)).await,
        }
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        let what = self.note(Operation::Amend, &[key], |_| ());
        self.send(what, self.right.amend(key, number, change)).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let what = self.note(Operation::Withdraw, &[key], |asked| asked.tombstone = tombstone);
        self.send(what, self.right.withdraw(key, tombstone)).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        let what = self.note(Operation::Wait, &[], |_| ());
        self.send(what, self.right.wait(interest, seen, within)).await
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        let stale = self.stale.lock().unwrap().take();
        match stale {
            Some(line) => Ok(line),
            None => self.right.line(name).await,
        }
    }

    forward_store! { self => self.right; admin id fence_key }

    fn on_loss(&self, listener: Losses) {
        *self.listener.lock().unwrap() = Some(listener);
    }
}

impl fmt::Display for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("spy:")
    }
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spy")
    }
}

/// A store that the processes of one test share, and its clock.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Clock,
}

/// A keeper in a process of its own, its spy, and its events.
pub(crate) struct TestClient {
    pub(crate) keeper: Keeper,
    pub(crate) spy: Arc<Spy>,
    events: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Clock::tokio();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    /// A world on real time, for tests with threads.
    pub(crate) fn real() -> Self {
        Self { store: MemoryStore::new(), clock: Clock::boot() }
    }

    pub(crate) async fn test_client(&self, ttl: Duration) -> TestClient {
        self.test_client_with(|builder| builder.ttl(ttl)).await
    }

    pub(crate) async fn test_client_with(
        &self,
        set: impl FnOnce(KeeperBuilder) -> KeeperBuilder,
    ) -> TestClient {
        self.test_client_on(Capabilities::full(), None, set).await
    }

    /// A client whose claims live as long as their session. The last `lag` renewals do not count as
    /// proof.
    pub(crate) async fn test_client_by_session(&self, ttl: Duration, lag: u8) -> TestClient {
        let mut can = Capabilities::full();
        can.expiry = Expiry::Session { proof_lag: lag };
        can.resumable = false;
        self.test_client_on(can, None, |builder| builder.ttl(ttl)).await
    }

    pub(crate) async fn test_client_on(
        &self,
        can: Capabilities,
        granted: Option<Duration>,
        set: impl FnOnce(KeeperBuilder) -> KeeperBuilder,
    ) -> TestClient {
        let spy = Arc::new(Spy {
            right: self.store.clone(),
            clock: self.clock.clone(),
            asked: Mutex::default(),
            rules: Mutex::default(),
            can: Mutex::new(can),
            listener: Mutex::default(),
            ttl: Mutex::new(granted),
            stale: Mutex::default(),
        });
        let events = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&events);
        let builder = Keeper::builder(Arc::clone(&spy)).clock(self.clock.clone());
        let builder = builder.on_event(move |event| notes.lock().unwrap().push(in_short(event)));
        TestClient { keeper: set(builder).connect().await.unwrap(), spy, events }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Removes this claim from the store without a reason.
    pub(crate) async fn forget(&self, name: &str, id: ClaimId) {
        let key = ClaimKey { name: name.parse().unwrap(), session: SessionId::random(), id };
        assert_eq!(self.store.withdraw(&key, None).await.unwrap(), Withdrawal::Removed);
    }

    /// The ids of the claims in this line, as other clients see them.
    pub(crate) async fn line(&self, name: &str) -> Vec<String> {
        let line = self.store.line(&name.parse().unwrap()).await.unwrap();
        line.entries.iter().map(|entry| entry.id.to_string()).collect()
    }
}

impl TestClient {
    pub(crate) fn mutex(&self, name: &str) -> lockkeeper::Mutex {
        self.keeper.mutex(name).unwrap()
    }

    /// How often an event that begins with this text happened.
    pub(crate) fn count(&self, event: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|e| e.starts_with(event)).count()
    }
}

fn in_short(event: &Event<'_>) -> String {
    match event {
        Event::Lost { reason, .. } => format!("lost: {reason:?}"),
        Event::Acquired { .. } => "acquired".to_owned(),
        Event::Released { .. } => "released".to_owned(),
        Event::Jeopardy => "jeopardy".to_owned(),
        Event::Recovered => "recovered".to_owned(),
        Event::Queued { .. } => "queued".to_owned(),
        Event::Contended { .. } => "contended".to_owned(),
        Event::ClaimFailed { .. } => "claim failed".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
