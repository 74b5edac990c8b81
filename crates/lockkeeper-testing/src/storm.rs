//! An unreliable network around any store. Several clients that follow the rules never hold the
//! lock together, and nothing is left at the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Case, Client, Contender, Seeded, Ttls};
use lockkeeper::layer::{Chaos, Faults};
use lockkeeper::store::{Amend, Amended, Renewal, Store, Verdict};
use lockkeeper::time::{Clock, Instant, believed};
use lockkeeper::{Effect, ErrorKind};

const CLIENTS: u64 = 4;
const ROUNDS: usize = 12;
const PAUSE: Duration = Duration::from_millis(50);
/// The longest minimum hold.
const KEPT: Duration = Duration::from_millis(600);

/// Some clients take one mutex in turn while these faults happen, each as often as it can. The
/// clients follow these rules:
/// - A claim whose outcome is unknown is sent again with its id. After `Gone` the client takes a
///   new id.
/// - A holder counts as the holder for the ttl after its last acknowledged request, counted from
///   before it was sent.
/// - An id that may have expired is never used again.
/// - A holder begins a minimum hold now and then, if the store can keep one.
/// - A claim whose outcome was ever unknown is withdrawn with a tombstone, and withdrawn again
///   until the store answers.
///
/// Panics when two clients hold the lock at once, when a client holds the lock before a minimum
/// hold is over, when a token goes back, or when a claim is left in line at the end. The store's
/// claims must expire one by one.
pub async fn storm(case: &Case, seed: u64, faults: &Faults) {
    eprintln!("storm {seed}");
    let log = Arc::new(Log {
        clock: case.clock().clone(),
        last: Mutex::default(),
        kept: Mutex::default(),
    });
    let mut tasks = tokio::task::JoinSet::new();
    let mut networks = Vec::new();
    for i in 0..CLIENTS {
        let clock = case.clock().clone();
        let chaos = Arc::new(
            Chaos::new(case.harness().client().await, clock.clone()).seed(seed * CLIENTS + i),
        );
        networks.push(Arc::clone(&chaos));
        let ttls = case.short();
        let client = Client::open(Arc::clone(&chaos) as Arc<dyn Store>, clock, ttls).await;
        chaos.set(faults.clone());
        let one = client.mutex(&case.name("lock"));
        let seed = Seeded::new(seed * CLIENTS + i + 1_000_000);
        tasks.spawn(take_turns(one, Arc::clone(&log), seed));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    }
    for chaos in networks {
        chaos.quiet();
        chaos.settled().await;
    }
    case.pass(KEPT).await;
    let [after] = case.mutexes("lock").await;
    after.sees(&[], 0).await;
    after.trying().granted().await;
}

/// The last holder, and the time until which it may have reported the lock as held.
struct Log {
    clock: Clock,
    last: Mutex<(u64, Option<Instant>)>,
    /// The time until which the store has promised to keep the lock, less the difference that two
    /// clocks may have.
    kept: Mutex<Option<Instant>>,
}

impl Log {
    /// Called while the holder reports the lock as held.
    fn enter(&self, token: u64, until: Instant) {
        let mut last = self.last.lock().unwrap();
        let (before, held_until) = *last;
        assert!(
            held_until.is_none_or(|end| end <= self.clock.now()),
            "{token} holds while {before} still believes"
        );
        assert!(token > before, "token {token} after {before}");
        let kept = self.kept.lock().unwrap().take();
        assert!(
            kept.is_none_or(|end| end <= self.clock.now()),
            "{token} holds while the store keeps it for {before}"
        );
        *last = (token, Some(until));
    }

    fn renew(&self, token: u64, until: Instant) {
        let mut last = self.last.lock().unwrap();
        assert_eq!(last.0, token, "somebody else has the lock while {token} believes");
        last.1 = Some(until);
    }

    fn leave(&self, token: u64) {
        let mut last = self.last.lock().unwrap();
        if last.0 == token {
            last.1 = None;
        }
    }
}

async fn take_turns(template: Contender, log: Arc<Log>, mut seed: Seeded) {
    for _ in 0..ROUNDS {
        let (claim, token, doubtful) = acquire(&template, &log.clock).await;
        if log.clock.now() < deadline(&claim) {
            log.enter(token, deadline(&claim));
            keep(&claim, &log, &mut seed).await;
            hold(&claim, token, &log, &mut seed).await;
            log.leave(token);
        }
        give_up(&claim, doubtful, &log.clock).await;
    }
}

/// Begins a minimum hold, so that the store keeps the lock after its release too. A request without
/// an answer may still take effect, and late.
async fn keep(claim: &Contender, log: &Log, seed: &mut Seeded) {
    let store = &claim.client.store;
    let min_hold = (KEPT * u32::try_from(seed.below(100)).unwrap_or(0) / 100)
        .min(store.capabilities().min_hold_max);
    if min_hold.is_zero() {
        return;
    }
    let sent = log.clock.now();
    let amended = store.amend(&claim.claim.key, 1, &Amend::MinHold(min_hold)).await;
    if let Ok(Amended::Done) = amended {
        *log.kept.lock().unwrap() = Some(sent + min_hold - min_hold / 50);
    }
}

/// Works for a while, and renews once if the deadline allows it.
async fn hold(claim: &Contender, token: u64, log: &Log, seed: &mut Seeded) {
    for _ in 0..2 {
        let left = deadline(claim).saturating_since(log.clock.now());
        let work = Duration::from_millis(seed.below(400)).min(left);
        log.clock.sleep(work).await;
        let believing = log.clock.now() < deadline(claim);
        if !believing {
            return;
        }
        let before = deadline(claim);
        if let Ok(Renewal::Held { token: same, .. }) = claim.renew().await {
            assert_eq!(same, token);
            if log.clock.now() < before {
                log.renew(token, deadline(claim));
            } else {
                return;
            }
        }
    }
}

pub(super) fn deadline(claim: &Contender) -> Instant {
    claim.proven_alive() + believed(claim.ttls().ttl)
}

/// Claims until the claim is granted. Also returns whether an answer was ever missing.
pub(super) async fn acquire(template: &Contender, clock: &Clock) -> (Contender, u64, bool) {
    let mut claim = template.with_new_id();
    let mut id_state = IdState::begin(clock, &claim.ttls());
    loop {
        let sent = clock.now();
        let answer =
            if id_state.sent_before { claim.send_again().await } else { claim.send().await };
        id_state.sent_before = true;
        match answer {
            _ if clock.now() >= id_state.ends => {
                give_up(&claim, true, clock).await;
                (claim, id_state) =
                    (template.with_new_id(), IdState::begin(clock, &template.ttls()));
            }
            Ok(Verdict::Granted { token, .. }) => return (claim, token, id_state.doubtful),
            Ok(Verdict::Queued { seen, look_again, .. }) => {
                id_state.ends = id_state.ends.max(sent + believed(claim.ttls().wait_ttl));
                let within = look_again.min(claim.ttls().wait_ttl / 4);
                let waiting = claim.client.store.wait(
                    lockkeeper::store::Interest::Claim(&claim.claim.key),
                    seen,
                    within,
                );
                if waiting.await.is_err() {
                    clock.sleep(PAUSE).await;
                }
            }
            Ok(Verdict::Gone) => {
                (claim, id_state) =
                    (template.with_new_id(), IdState::begin(clock, &template.ttls()))
            }
            Ok(Verdict::Busy { .. }) => panic!("who queues is not turned away"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                id_state.doubtful |= error.effect() == Effect::Unknown;
                // A request that was certainly not sent cannot be sent again.
                id_state.sent_before = id_state.doubtful || claim.was_answered();
                clock.sleep(PAUSE).await;
            }
        }
    }
}

/// The state of an id.
struct IdState {
    sent_before: bool,
    doubtful: bool,
    ends: Instant,
}

impl IdState {
    /// The first request of an id counts as acknowledged.
    fn begin(clock: &Clock, ttls: &Ttls) -> Self {
        Self { sent_before: false, doubtful: false, ends: clock.now() + believed(ttls.wait_ttl) }
    }
}

pub(super) async fn give_up(claim: &Contender, doubtful: bool, clock: &Clock) {
    let tombstone = doubtful.then_some(lockkeeper::store::TOMBSTONE_MIN);
    while claim.client.store.withdraw(&claim.claim.key, tombstone).await.is_err() {
        clock.sleep(PAUSE).await;
    }
}
