//! A store of your own, in one file, for a system that lockkeeper does not know.
//!
//! This store is small and complete. It has one row for each lock, which is a line of claims. Each
//! request changes the row in one atomic step, and a clock of the store decides which claims have
//! expired. The store has only exclusive locks, and its waiters ask again from time to time: it
//! says so in [`Store::capabilities`]. lockkeeper does the rest: waiting, renewing, deadlines,
//! guards, elections, errors.
//!
//! `tests/it/custom_store.rs` runs lockkeeper's contract suite on this store. A store of your own
//! should begin with the suite too.
//!
//! ```sh
//! cargo run -p lockkeeper --example custom_store
//! ```

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::store::{
    Admin, Admission, Amend, Amended, Capabilities, Claim, ClaimId, ClaimKey, Driver, Entry,
    Interest, Line, Live, LiveState, MAX, Opened, Opening, Pace, Renewal, Renewed, Revision,
    SessionId, SessionSpec, Store, StoreId, TOMBSTONE_MIN, Verdict, Wake, Wakes, Withdrawal, poll,
    refusal,
};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::url::{Scheme, StoreUrl, UrlForm, UrlSyntax};
use lockkeeper::{Error, ErrorKind, FencingToken, Keeper, LockName, Result};
use tokio::task::JoinSet;

/// How often a waiter looks: at first every 20 ms, and more rarely the longer it has waited.
const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_secs(1));
/// How long a waiter looks before it claims again, since a look may have missed a change.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The store by its URL: with this driver, `table:` works wherever a URL does.
pub static DRIVER: Driver = Driver::new("Table", &URLS, open);

/// The syntax of the URLs. A store with a server has hosts, and parameters of its own.
static URLS: UrlSyntax = UrlSyntax::new(&[Scheme::new("table", UrlForm::Alone, "table:")]);

/// The server that a URL names, in a real store.
static SERVER: LazyLock<Table> = LazyLock::new(|| Table::new(Clock::boot()));

/// Opens the store. A real store reads the hosts and the parameters of the URL.
fn open(_: StoreUrl) -> Opening {
    Box::pin(async { Ok(Arc::new(SERVER.clone()) as Arc<dyn Store>) })
}

/// The store. Clones are connections to the same rows.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Arc<Mutex<Rows>>,
    clock: Clock,
    id: StoreId,
}

/// The data of the store: your table, your documents, your keys.
#[derive(Debug, Default)]
struct Rows {
    rows: HashMap<LockName, Row>,
    /// Claims that must not be granted any more, even if a copy of them comes late, and until when.
    tombstones: HashMap<ClaimId, Instant>,
    /// The closed sessions, and until when the store remembers them.
    closed: HashMap<SessionId, Instant>,
}

/// One lock: the line of its claims. The first claim has the lock.
#[derive(Debug, Default)]
struct Row {
    line: Vec<QueueEntry>,
    /// The last token. It only ever rises, so the store never deletes a row.
    fence: u64,
    /// Changes with the line, so an observer of the line sees the change.
    version: u64,
}

#[derive(Debug)]
struct QueueEntry {
    claim: Claim,
    /// The token of the claim, once it is granted.
    token: Option<u64>,
    since: Instant,
    expires: Instant,
}

impl Table {
    /// An empty table. In a real store the server's clock decides, in the same atomic step.
    pub fn new(clock: Clock) -> Self {
        Self { rows: Arc::default(), clock, id: StoreId::random() }
    }

    /// One atomic step: your transaction, your script, your compare-and-swap.
    fn step(&self) -> (MutexGuard<'_, Rows>, Instant) {
        (self.rows.lock().unwrap_or_else(PoisonError::into_inner), self.clock.now())
    }
}

impl Rows {
    /// The row as it is now: without the dead claims, and with the first claim granted.
    fn row(&mut self, name: &LockName, now: Instant) -> &mut Row {
        let row = self.rows.entry(name.clone()).or_default();
        row.keep(now, |entry| entry.expires > now);
        row
    }

    /// Adds a tombstone, or extends it.
    fn add_tombstone(&mut self, id: ClaimId, until: Instant) {
        let kept_until = self.tombstones.entry(id).or_insert(until);
        *kept_until = until.max(*kept_until);
    }
}

impl Row {
    /// Removes the claims that do not stay, and grants the lock to the first of the others. Returns
    /// whether a claim was removed.
    fn keep(&mut self, now: Instant, stays: impl FnMut(&QueueEntry) -> bool) -> bool {
        let before = self.line.len();
        self.line.retain(stays);
        let removed = self.line.len() < before;
        if let Some(first) = self.line.first_mut().filter(|first| first.token.is_none()) {
            self.fence += 1;
            // The grant does not extend the life of the claim; the claim's next request does.
            (first.token, first.since) = (Some(self.fence), now);
            self.version += 1;
        }
        self.version += u64::from(removed);
        removed
    }

    fn join(&mut self, claim: &Claim, now: Instant) -> usize {
        self.line.push(QueueEntry { claim: claim.clone(), token: None, since: now, expires: now });
        self.version += 1;
        self.keep(now, |_| true);
        self.line.len() - 1
    }

    fn find(&self, id: ClaimId) -> Option<usize> {
        self.line.iter().position(|entry| entry.claim.key.id == id)
    }

    /// Starts the life of a claim again, for the claim's own request.
    fn live(&mut self, at: usize, now: Instant) -> &QueueEntry {
        let entry = &mut self.line[at];
        let Claim { ttl, lock_delay, wait_ttl, .. } = entry.claim;
        entry.expires = now + if entry.token.is_some() { ttl + lock_delay } else { wait_ttl };
        entry
    }

    fn answer(&mut self, at: usize, now: Instant) -> Verdict {
        let entry = self.live(at, now);
        let (token, ttl) = (entry.token, entry.claim.ttl);
        let ahead = u32::try_from(at).unwrap_or(u32::MAX);
        let queued =
            Verdict::Queued { ahead, seen: Revision(self.version), look_again: LOOK_AGAIN };
        token.map_or(queued, |token| Verdict::Granted { token, ttl })
    }

    /// Adds a new claim to the line, or turns it away.
    fn admit(&mut self, claim: &Claim, now: Instant) -> Result<Verdict> {
        let Some((first, waiting)) = self.line.split_first() else {
            let at = self.join(claim, now);
            return Ok(self.answer(at, now));
        };
        let epoch = waiting.last().unwrap_or(first).claim.meta.epoch;
        if epoch > claim.meta.epoch {
            return Err(refusal::epoch(epoch, claim.meta.epoch));
        }
        if waiting.is_empty() && claim.replaces == Some(first.claim.key.id) {
            self.line.clear();
        } else if !claim.queue || claim.replaces.is_some() {
            return Ok(Verdict::Busy {
                holder: Some(Arc::clone(&first.claim.meta.owner)),
                retry_after: Some(first.expires.saturating_since(now)),
                seen: Revision(self.version),
            });
        } else if waiting.len() >= claim.max_waiters as usize {
            return Err(refusal::queue_full(claim.max_waiters));
        }
        let at = self.join(claim, now);
        Ok(self.answer(at, now))
    }
}

#[async_trait]
impl Store for Table {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::full();
        can.admission = Admission::Exclusive;
        can.wake = Wakes::Poll;
        can.amend = false;
        can.min_hold_max = Duration::ZERO;
        can
    }

    fn admin(&self) -> Option<&dyn Admin> {
        None
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.capabilities().check(spec)?;
        let (mut rows, now) = self.step();
        rows.closed.retain(|_, until| *until > now);
        // The same id again is the same session. The store keeps nothing of an open session: each
        // claim has a life of its own.
        if rows.closed.contains_key(id) {
            Err(refusal::session_ended())
        } else {
            Ok(Opened { ttl: spec.ttl })
        }
    }

    /// Renews the claims, and revives none: a claim that is not in the line is lost.
    async fn renew(&self, _session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let (mut rows, now) = self.step();
        let renew = |Live { key, state }: &Live| {
            let row = rows.row(&key.name, now);
            let known = row.find(key.id).map(|at| {
                let entry = row.live(at, now);
                (entry.token, entry.claim.ttl)
            });
            match known {
                // The ttl of the claim's first request: a later copy does not change it.
                Some((Some(token), ttl)) => Renewal::Held { token, ttl },
                Some((None, _)) => Renewal::Queued,
                // The claim itself may still be on its way.
                None if *state == LiveState::InFlight => Renewal::Unknown,
                None => Renewal::Lost(None),
            }
        };
        Ok(Renewed {
            claims: live.iter().map(renew).collect(),
            server_time: None,
            requests: Vec::new(),
        })
    }

    async fn close(&self, session: &SessionId, _live: &[Live]) -> Result<()> {
        let (mut rows, now) = self.step();
        for row in rows.rows.values_mut() {
            row.keep(now, |entry| entry.expires > now && entry.claim.key.session != *session);
        }
        rows.closed.insert(session.clone(), now + TOMBSTONE_MIN);
        Ok(())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let (mut rows, now) = self.step();
        let id = claim.key.id;
        rows.tombstones.retain(|_, until| *until > now);
        if rows.tombstones.contains_key(&id) {
            return Ok(Verdict::Gone);
        }
        let row = rows.row(&claim.key.name, now);
        // A repeated request is the same claim.
        if let Some(at) = row.find(id) {
            return Ok(row.answer(at, now));
        }
        if claim.resend {
            rows.add_tombstone(id, now + claim.ttl.max(TOMBSTONE_MIN));
            return Ok(Verdict::Gone);
        }
        row.admit(claim, now)
    }

    async fn amend(&self, _key: &ClaimKey, _number: u64, _change: &Amend) -> Result<Amended> {
        // Never called: `capabilities` says that the store cannot do this.
        Ok(Amended::NotLive)
    }

    /// Withdraws the claim with this id, and no other.
    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let (mut rows, now) = self.step();
        if let Some(life) = tombstone {
            rows.add_tombstone(key.id, now + life);
        }
        let removed = rows.row(&key.name, now).keep(now, |entry| entry.claim.key.id != key.id);
        Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent })
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        let news = || {
            let (mut rows, now) = self.step();
            ready(Ok(look(&mut rows, interest, seen, now)))
        };
        Ok(poll(&self.clock, PACE, within, news).await?.unwrap_or(Wake::Elapsed))
    }

    /// The id is made with the table, and ends with it.
    async fn id(&self) -> Result<StoreId> {
        Ok(self.id)
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        let (mut rows, now) = self.step();
        let row = rows.row(name, now);
        let entry = |entry: &QueueEntry| Entry {
            id: entry.claim.key.id.hash(),
            weight: MAX,
            capacity: MAX,
            granted: entry.token.is_some(),
            kept: false,
            token: entry.token,
            meta: entry.claim.meta.clone(),
            age: Some(now.saturating_since(entry.since)),
            expires_in: Some(entry.expires.saturating_since(now)),
            broken: None,
        };
        Ok(Line {
            revision: Revision(row.version),
            last_token: (row.fence > 0).then_some(row.fence),
            entries: row.line.iter().map(entry).collect(),
        })
    }
}

/// The reason to wake a waiter or an observer, if there is one.
fn look(rows: &mut Rows, interest: Interest<'_>, seen: Revision, now: Instant) -> Option<Wake> {
    match interest {
        Interest::Claim(key) => {
            let row = rows.row(&key.name, now);
            match row.find(key.id).map(|at| row.line[at].token) {
                Some(token) => token.map(|token| Wake::Granted { token }),
                None => Some(Wake::Changed),
            }
        }
        Interest::Name(name) => {
            (Revision(rows.row(name, now).version) != seen).then_some(Wake::Changed)
        }
    }
}

/// The address of the store in errors.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("table")
    }
}

/// Four clients count to forty together. Each client reads the number, lets the others run, and
/// writes the number plus one.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    Keeper::register(&DRIVER)?;
    let count = Arc::<Count>::default();
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let keeper = lockkeeper::connect("table:?ttl=20s").await?;
        clients.spawn(count_to_ten(keeper, Arc::clone(&count)));
    }
    for counted in clients.join_all().await {
        counted?;
    }
    let (count, _) = *count.lock().unwrap_or_else(PoisonError::into_inner);
    println!("4 clients have counted to {count}, each with a higher token than the one before");
    assert_eq!(count, 40);

    let keeper = lockkeeper::connect("table:").await?;
    let refused = keeper.semaphore("licences", 3)?.try_acquire().await.err();
    assert_eq!(refused.as_ref().map(Error::kind), Some(ErrorKind::Unsupported));
    println!(
        "what it cannot do is refused: {}",
        refused.map(|error| error.to_string()).unwrap_or_default()
    );
    Ok(())
}

type Count = Mutex<(u32, Option<FencingToken>)>;

async fn count_to_ten(keeper: Keeper, count: Arc<Count>) -> Result<()> {
    let count = || count.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..10 {
        let guard = keeper.mutex("count")?.lock().await?;
        let (number, token) = *count();
        assert!(token < Some(guard.token()));
        tokio::task::yield_now().await;
        *count() = (number + 1, Some(guard.token()));
        guard.release().await?;
    }
    Ok(())
}
