//! Putting a claim into its line, or looking how it stands. `tries` are the claims that are not just put in line, `judge`
//! is what a claim is told.

mod judge;
mod tries;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;

use super::keep::unix_ms;
use super::layout::transaction::{
    absent, all, delete_made, empty_but_for, get, inners, last, nested, only, put, range, ranges, transaction,
};
use super::layout::{Contender, Layout, Record, Span, mark};
use super::order::OrderGuard;
use super::sessions::{self, ClaimState, Purpose, Session};
use super::timers::Timer;
use super::wire::WireError;
use super::wire::messages::{Compare, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse};
use super::{EtcdStore, fault};
use crate::store::{Claim, ClaimKey, MAX, Verdict};
use crate::{Error, ErrorKind, Result};

/// Where so many stand in line, another one is not first: to ask whether it is would take etcd as long as to put it there.
const LONG_QUEUE: u32 = 16;

/// One claim, on its way.
struct Claiming {
    store: EtcdStore,
    claim: Claim,
    session: Arc<Session>,
    line: Span,
    key: Bytes,
    gone: Bytes,
    record: Arc<Record>,
    /// What times the minimum hold of the claim whose place it is to have.
    timer: Option<Timer>,
    /// Its place among the claims of this client on this name.
    order_guard: OrderGuard,
    /// Held until the claim has been put in line, or has not.
    gate: Mutex<Option<OwnedMutexGuard<()>>>,
}

/// Lets the next claim pass when this is dropped.
struct Asks<'a>(&'a Claiming);

/// What came of a transaction.
enum Answer {
    /// The claim is in line, on this lease, made by this revision; behind these, as far as they were asked for. If it holds,
    /// its record may say since when.
    Joined { lease: i64, created: i64, line: Vec<Contender>, count: u32, is_dated: bool },
    /// The claim is in line, on this lease for those who hold, and nobody is in its way.
    Held { lease: i64, created: i64, is_dated: bool },
    /// The claim was there already.
    Known(KeyValue),
    /// Its id is retired.
    Retired,
    /// It was not put in line: this is the line, at this revision.
    Outside { line: Vec<Contender>, revision: i64 },
}

pub(super) async fn claim(store: &EtcdStore, claim: &Claim) -> Result<Verdict> {
    store.0.lines.check_name(&claim.key.name)?;
    let session = store.0.sessions.get(&claim.key.session)?;
    let slot = session.slot(&store.0.lines, &claim.key, store.0.clock.now());
    session.replaces(claim.key.id, claim.replaces);
    let timer = inherited(store, &session, claim).await?;
    let mut record = Record::of(claim, &store.0.client);
    record.keep = timer.map(|timer| timer.keep);
    let claiming = Arc::new(Claiming {
        store: store.clone(),
        claim: claim.clone(),
        session,
        line: store.0.lines.of(&claim.key.name),
        key: slot.at,
        gone: store.0.lines.gone(claim.key.id),
        record: Arc::new(record),
        timer,
        order_guard: store.0.order.guard(&claim.key.name),
        gate: Mutex::default(),
    });
    let verdict = claiming.run().await;
    let is_in_line = match &verdict {
        Ok(verdict) => matches!(verdict, Verdict::Granted { .. } | Verdict::Queued { .. }),
        // What failed was the question after it; the claim may be where it was.
        Err(_) if claim.resend => true,
        Err(error) => error.effect() == crate::Effect::Unknown,
    };
    if let Ok(Verdict::Granted { .. }) = &verdict {
        store.has_replaced(&claiming.session, &claim.key);
    }
    if !is_in_line {
        claiming.session.left(claim.key.id);
        match verdict {
            Ok(Verdict::Gone) => claiming.session.retires_slot(claim.key.id),
            // Nothing of it was put anywhere.
            _ => claiming.session.releases_slot(&claim.key, store.0.clock.now()),
        }
    }
    verdict
}

/// What times the minimum hold of the claim whose place this one is to have.
async fn inherited(store: &EtcdStore, session: &Arc<Session>, claim: &Claim) -> Result<Option<Timer>> {
    let Some(old) = claim.replaces else { return Ok(None) };
    // A fixed lease has a session of its own.
    let of_old = store.0.sessions.of(old).unwrap_or_else(|| Arc::clone(session));
    let timer = store.inherited(&of_old, &ClaimKey { id: old, ..claim.key.clone() }).await?;
    let timer = timer.filter(|timer| timer.is_over > store.0.clock.now());
    if let Some(timer) = timer {
        session.times(claim.key.id, timer);
    }
    Ok(timer)
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.let_the_next();
    }
}

impl Claiming {
    /// The guard is taken and used in the store's runtime: others wait for it, whether this future is polled or not.
    async fn run(self: &Arc<Self>) -> Result<Verdict> {
        let claiming = Arc::clone(self);
        let asking = self.store.0.runtime.carry_on(async move { claiming.ask_in_order().await });
        self.answered(asking.await.unwrap_or_else(|| Err(fault::ended()))?).await
    }

    async fn ask_in_order(&self) -> Result<Answer> {
        let gate = Arc::clone(&self.order_guard.gate).lock_owned().await;
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).replace(gate);
        let _asks = Asks(self);
        if !self.session.has_slot(self.claim.key.id) {
            // The claim was withdrawn while it waited for the guard. Nobody would believe in it, and nobody withdraw it
            // again.
            return Ok(Answer::Retired);
        }
        if self.claim.resend {
            return self.resend().await;
        }
        if self.claim.replaces.is_some() {
            return self.replace().await;
        }
        let has_two_ttls = self.is_exclusive() && !self.session.has_one_ttl();
        let purpose =
            match self.claim.queue && has_two_ttls && self.order_guard.queue_len.load(Ordering::Relaxed) > LONG_QUEUE {
                true => Purpose::Wait,
                false => Purpose::Hold,
            };
        let lease = self.store.lease(&self.session, purpose).await?;
        match (self.claim.queue, purpose) {
            (false, _) => self.attempt(lease).await,
            (true, Purpose::Hold) if has_two_ttls => self.join_on_either(lease).await,
            (true, _) => match self.join_on(lease).await {
                // It is the lease for those who wait that has ended; nothing was done.
                Err(error) if error.kind() == ErrorKind::SessionLost && purpose == Purpose::Wait => {
                    self.session.ended(lease);
                    self.join_on_either(self.store.lease(&self.session, Purpose::Hold).await?).await
                }
                answer => answer,
            },
        }
    }

    /// What was asked has its place among the claims of this client.
    fn let_the_next(&self) {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn is_exclusive(&self) -> bool {
        self.claim.weight == MAX
    }

    /// Puts it in line, on this lease.
    async fn join_on(&self, lease: i64) -> Result<Answer> {
        let leaving = self.store.0.order.piggyback_deletes(&self.claim.key.name, &self.key);
        let answer = self.ask(self.join(lease, &leaving)).await;
        self.let_the_next();
        Ok(self.joined(answer?, lease))
    }

    /// Puts it in line: on a lease for those who hold if nobody is there, else on one for those who wait.
    async fn join_on_either(&self, hold: i64) -> Result<Answer> {
        let mut wait = self.store.fresh(&self.session, Purpose::Wait);
        loop {
            let leaving = self.store.0.order.piggyback_deletes(&self.claim.key.name, &self.key);
            let mut when = self.is_new();
            when.extend(empty_but_for(&self.line, &leaving));
            let mut then = deletions(&leaving);
            then.push(self.put(hold, true));
            // Before anybody has waited there is no lease for that, and the second half only looks.
            let second = match wait {
                Some(wait) => self.join(wait, &leaving),
                None => transaction(self.is_new(), vec![range(self.others())], self.known()),
            };
            let asked = self.ask(transaction(when, then, vec![nested(second)])).await;
            if let (Some(ended), Err(error)) = (wait, &asked)
                && error.kind() == ErrorKind::SessionLost
            {
                // It may be the lease for those who wait that has ended; nothing was done.
                self.session.ended(ended);
                wait = None;
                continue;
            }
            let answer = asked?;
            if answer.succeeded {
                let created = answer.header.map_or(0, |header| header.revision);
                return Ok(Answer::Joined { lease: hold, created, line: Vec::new(), count: 1, is_dated: true });
            }
            let Some(second) = inners(answer.responses).next() else { return Err(garbled()) };
            let second = TxnResponse { header: answer.header, ..second };
            match wait {
                Some(wait) => return Ok(self.joined(second, wait)),
                // Renewed since this began, which is what counts.
                None if second.succeeded => wait = Some(self.store.lease(&self.session, Purpose::Wait).await?),
                None => return Ok(known_or_retired(second.responses)),
            }
        }
    }

    /// Puts it in line on this lease, if it is new, and looks who is before it.
    fn join(&self, lease: i64, leaving: &[(Bytes, i64)]) -> TxnRequest {
        let mut then = deletions(leaving);
        then.extend([self.put(lease, false), range(self.others())]);
        transaction(self.is_new(), then, self.known())
    }

    fn joined(&self, answer: TxnResponse, lease: i64) -> Answer {
        if !answer.succeeded {
            return known_or_retired(answer.responses);
        }
        let created = answer.header.map_or(0, |header| header.revision);
        let seen = ranges(answer.responses).next().unwrap_or_default();
        let count = u32::try_from(seen.count).unwrap_or(u32::MAX);
        self.order_guard.queue_len.store(count, Ordering::Relaxed);
        Answer::Joined { lease, created, line: self.read(seen), count, is_dated: false }
    }

    /// It holds; `dated` if its record says since when.
    fn granted(&self, lease: i64, created: i64, dated: bool) -> Verdict {
        self.record_claim(lease, created, true);
        if dated {
            self.session.is_dated(self.claim.key.id);
        }
        Verdict::Granted { token: created.unsigned_abs() }
    }

    fn record_claim(&self, lease: i64, created: i64, held: bool) {
        let (record, granted) = (Arc::clone(&self.record), held.then(|| self.store.0.clock.now()));
        let state =
            ClaimState { lease, created, held, is_dated: false, granted, watched: None, blocked_by: None, record };
        self.session.insert_claim(self.claim.key.id, state);
    }

    fn own(&self, lease: i64, created: i64) -> Contender {
        Contender {
            key: self.key.clone(),
            created,
            changed: created,
            lease,
            id: Some(self.claim.key.id),
            record: Some((*self.record).clone()),
            value: Bytes::new(),
        }
    }

    /// Neither known nor retired.
    fn is_new(&self) -> Vec<Compare> {
        vec![absent(&self.key), absent(&self.gone)]
    }

    /// What tells which of the two it is.
    fn known(&self) -> Vec<RequestOp> {
        vec![get(&self.key), get(&self.gone)]
    }

    fn put(&self, lease: i64, is_first: bool) -> RequestOp {
        let mut record = Record::clone(&self.record);
        // It holds from now on if this is done.
        record.held_ms = is_first.then(unix_ms);
        put(&self.key, record.written(), lease)
    }

    /// Of those before one that takes everything the last is enough, since every key of a native line is a contender.
    fn others(&self) -> RangeRequest {
        match self.is_exclusive() && self.store.0.lines.layout == Layout::Native {
            true => last(3, &self.line, None),
            false => all(&self.line),
        }
    }

    fn outside(&self, answer: TxnResponse) -> Answer {
        let revision = answer.header.map_or(0, |header| header.revision);
        let mut ranges = ranges(answer.responses);
        let (own, gone, line) = (only(ranges.next()), only(ranges.next()), ranges.next());
        match (own, gone) {
            (Some(own), _) => Answer::Known(own),
            (None, Some(_)) => Answer::Retired,
            (None, None) => Answer::Outside { line: self.read(line.unwrap_or_default()), revision },
        }
    }

    fn read(&self, range: RangeResponse) -> Vec<Contender> {
        Contender::all(&self.store.0.lines, &self.line, range.kvs)
    }

    async fn ask(&self, request: TxnRequest) -> Result<TxnResponse> {
        let answer = self.store.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        answer.map_err(|error: WireError| match error.is_no_lease() {
            true => sessions::lost(),
            false => fault::of(error),
        })
    }
}

fn length(line: &[Contender]) -> u32 {
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

fn deletions(leaving: &[(Bytes, i64)]) -> Vec<RequestOp> {
    leaving.iter().map(|(key, made)| delete_made(key, *made)).collect()
}

/// What was put there is the only one, or one of those who are let in together.
fn held(lease: i64, answer: &TxnResponse) -> Answer {
    Answer::Held { lease, is_dated: true, created: answer.header.as_ref().map_or(0, |header| header.revision) }
}

fn known_or_retired(responses: Vec<super::wire::messages::ResponseOp>) -> Answer {
    match only(ranges(responses).next()) {
        Some(own) => Answer::Known(own),
        None => Answer::Retired,
    }
}

fn busy(line: &[Contender], revision: i64) -> Verdict {
    let holder = line.first().map(|holder| holder.meta().owner);
    Verdict::Busy { holder, retry_after: None, seen: mark(line, revision) }
}

fn garbled() -> Error {
    Error::new(ErrorKind::Internal, "etcd's answer is not one to this question")
        .with_unknown_effect()
        .with_remedy("a report of this bug")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::store::{ClaimId, ClaimKey, Meta, SessionSpec, Store as _};

    #[tokio::test]
    async fn a_claim_that_was_withdrawn_while_it_waited_for_its_guard_is_never_sent() {
        let store = EtcdStore::unasked(&EtcdStore::new(["127.0.0.1:1"])).unwrap();
        let (now, ttl, session) = (store.0.clock.now(), Duration::from_secs(30), sessions::name_of(7));
        store.0.sessions.opened(session.clone(), &SessionSpec::new(ttl, Duration::ZERO), 7, now);
        let claim = Claim {
            key: ClaimKey { name: "n".parse().unwrap(), session, id: ClaimId::random() },
            ttl,
            wait_ttl: ttl,
            lock_delay: Duration::ZERO,
            weight: MAX,
            capacity: MAX,
            queue: true,
            resend: false,
            replaces: None,
            max_waiters: 1,
            meta: Meta::default(),
        };
        let other = store.0.order.guard(&claim.key.name);
        let passing = other.gate.lock().await;
        let mut claiming = store.claim(&claim);
        assert!(claiming.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        store.0.sessions.get(&claim.key.session).unwrap().releases_slot(&claim.key, now);
        drop(passing);
        assert_eq!(claiming.await.unwrap(), Verdict::Gone, "nobody listens where it would have been sent");
    }
}
