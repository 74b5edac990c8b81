//! Putting a claim into its line, or looking how it stands.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::layout::transaction::{
    absent, all, created, delete, empty_but_for, get, inner, last_two, leased, move_to, nested, nobody_since, only,
    present, put, range, ranges, transaction,
};
use super::layout::{Contender, Layout, Record, Span, ahead_of, mark, standings};
use super::sessions::{self, Place, Purpose, Session};
use super::standing::{Standing, stand};
use super::wire::WireError;
use super::wire::messages::{Compare, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse};
use super::{EtcdStore, fault};
use crate::random::jittered;
use crate::store::{Claim, MAX, Revision, Verdict, refusal};
use crate::{Error, ErrorKind, Result};

/// When to look again if nothing is heard.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often a try looks again because somebody else has joined meanwhile.
const TRIES: u32 = 32;

/// One claim, on its way.
struct Claiming<'a> {
    store: &'a EtcdStore,
    claim: &'a Claim,
    session: Arc<Session>,
    line: Span,
    key: Bytes,
    gone: Bytes,
    record: Arc<Record>,
}

/// What came of a transaction.
enum Answer {
    /// The claim is in line, on this lease, made by this revision; behind these, as far as they were asked for.
    Joined { lease: i64, created: i64, line: Vec<Contender>, count: u32 },
    /// The claim was there already.
    Known(KeyValue),
    /// Its id is spent.
    Spent,
    /// It was not put in line: this is the line, at this revision.
    Outside { line: Vec<Contender>, revision: i64 },
}

pub(super) async fn claim(store: &EtcdStore, claim: &Claim) -> Result<Verdict> {
    let session = store.0.sessions.get(&claim.key.session)?;
    let claiming = Claiming {
        store,
        claim,
        session,
        line: store.0.lines.of(&claim.key.name),
        key: store.0.lines.claim(&claim.key),
        gone: store.0.lines.gone(claim.key.id),
        record: Arc::new(Record::of(claim, &store.0.client)),
    };
    let turn = store.0.order.turn(&claim.key.name);
    let verdict = {
        let _turn = turn.gate.lock().await;
        claiming.run().await
    };
    let is_in_line = match &verdict {
        Ok(verdict) => matches!(verdict, Verdict::Granted { .. } | Verdict::Queued { .. }),
        Err(error) => error.effect() == crate::Effect::Unknown,
    };
    if !is_in_line {
        claiming.session.left(claim.key.id);
    }
    verdict
}

impl Claiming<'_> {
    async fn run(&self) -> Result<Verdict> {
        if self.claim.resend {
            return self.resend().await;
        }
        if self.claim.replaces.is_some() {
            return self.replace().await;
        }
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let answer = match (self.claim.queue, self.is_exclusive() && !self.session.has_one_life()) {
            (false, _) => return self.attempt(lease).await,
            (true, true) => self.join_on_either(lease).await?,
            (true, false) => self.join_on(lease).await?,
        };
        self.answered(answer).await
    }

    fn is_exclusive(&self) -> bool {
        self.claim.weight == MAX
    }

    /// Puts it in line, on a lease for those who hold.
    async fn join_on(&self, lease: i64) -> Result<Answer> {
        let leaving = self.store.0.order.take_along(&self.claim.key.name);
        let answer = self.ask(self.join(lease, &leaving)).await?;
        Ok(self.joined(answer, lease))
    }

    /// Puts it in line: on a lease for those who hold if nobody is there, else on one for those who wait.
    async fn join_on_either(&self, hold: i64) -> Result<Answer> {
        loop {
            let leaving = self.store.0.order.take_along(&self.claim.key.name);
            let mut when = self.is_new();
            when.extend(empty_but_for(&self.line, leaving.clone()));
            let mut then = deletions(&leaving);
            then.push(self.put(hold));
            // Before anybody has waited there is no lease for that, and the second half only looks.
            let wait = self.store.fresh(&self.session, Purpose::Wait);
            let second = match wait {
                Some(wait) => self.join(wait, &leaving),
                None => transaction(self.is_new(), vec![range(self.others())], self.known()),
            };
            let asked = self.ask(transaction(when, then, vec![nested(second)])).await;
            if wait.is_some() && asked.as_ref().is_err_and(|error| error.kind() == ErrorKind::SessionLost) {
                // It may be the lease for those who wait that has ended; nothing was done.
                self.session.no_waiters();
                continue;
            }
            let answer = asked?;
            if answer.succeeded {
                let created = answer.header.map_or(0, |header| header.revision);
                return Ok(Answer::Joined { lease: hold, created, line: Vec::new(), count: 1 });
            }
            let Some(second) = inner(answer.responses) else { return Err(garbled()) };
            let second = TxnResponse { header: answer.header, ..second };
            match wait {
                Some(wait) => return Ok(self.joined(second, wait)),
                None if second.succeeded => drop(self.store.lease(&self.session, Purpose::Wait).await?),
                None => return Ok(known_or_spent(second.responses)),
            }
        }
    }

    /// Puts it in line on this lease, if it is new, and looks who is before it.
    fn join(&self, lease: i64, leaving: &[Bytes]) -> TxnRequest {
        let mut then = deletions(leaving);
        then.extend([self.put(lease), range(self.others())]);
        transaction(self.is_new(), then, self.known())
    }

    fn joined(&self, answer: TxnResponse, lease: i64) -> Answer {
        if !answer.succeeded {
            return known_or_spent(answer.responses);
        }
        let created = answer.header.map_or(0, |header| header.revision);
        let seen = ranges(answer.responses).next().unwrap_or_default();
        let count = u32::try_from(seen.count).unwrap_or(u32::MAX);
        Answer::Joined { lease, created, line: self.read(seen), count }
    }

    /// Takes the lock if that is possible now.
    async fn attempt(&self, lease: i64) -> Result<Verdict> {
        let leaving = self.store.0.order.take_along(&self.claim.key.name);
        let mut when = self.is_new();
        when.extend(empty_but_for(&self.line, leaving.clone()));
        let mut then = deletions(&leaving);
        then.push(self.put(lease));
        let mut seen = (Vec::new(), 0);
        for _ in 0..TRIES {
            let mut otherwise = self.known();
            otherwise.push(range(all(&self.line)));
            let answer = self.ask(transaction(when, then, otherwise)).await?;
            let created = answer.header.map_or(0, |header| header.revision);
            if answer.succeeded {
                return Ok(self.granted(lease, created));
            }
            let (line, revision) = match self.outside(answer) {
                Answer::Outside { line, revision } => (line, revision),
                known => return self.answered(known).await,
            };
            // What leaves is not in anybody's way.
            let line: Vec<_> = line.into_iter().filter(|contender| !leaving.contains(&contender.key)).collect();
            self.check(&line)?;
            if !self.would_be_admitted(&line) {
                return Ok(busy(&line, revision));
            }
            // If nobody has joined since, it is as it was; and whoever left is in nobody's way.
            when = self.is_new();
            when.push(nobody_since(&self.line, revision));
            then = deletions(&leaving);
            then.push(self.put(lease));
            seen = (line, revision);
        }
        Ok(busy(&seen.0, seen.1))
    }

    /// Asks after a claim that may have arrived; if it has not, it never will.
    async fn resend(&self) -> Result<Verdict> {
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let spend = put(&self.gone, Bytes::new(), lease);
        let answer = self.ask(transaction(vec![absent(&self.key)], vec![spend], vec![get(&self.key)])).await?;
        if answer.succeeded {
            return Ok(Verdict::Gone);
        }
        self.answered(known_or_spent(answer.responses)).await
    }

    /// Takes the place of the caller's own claim, if that is the only one.
    async fn replace(&self) -> Result<Verdict> {
        let Some(old) = self.claim.replaces else { return Err(garbled()) };
        let mut key = self.claim.key.clone();
        key.id = old;
        let (old, place) = (self.store.0.lines.claim(&key), self.session.place(old));
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let mut when = self.is_new();
        when.push(present(&old));
        if let Some(place) = &place {
            if place.record.capacity != self.claim.capacity {
                return Err(refusal::capacity(place.record.capacity, self.claim.capacity));
            }
            // One that was broken is on another.
            when.push(leased(&old, place.lease));
        }
        when.extend(empty_but_for(&self.line, vec![old.clone()]));
        let mut otherwise = self.known();
        otherwise.push(range(all(&self.line)));
        let answer = self.ask(transaction(when, vec![delete(&old), self.put(lease)], otherwise)).await?;
        if answer.succeeded {
            self.session.left(key.id);
            return Ok(self.granted(lease, answer.header.map_or(0, |header| header.revision)));
        }
        match self.outside(answer) {
            Answer::Outside { line, revision } => {
                self.check(&line)?;
                Ok(busy(&line, revision))
            }
            known => self.answered(known).await,
        }
    }

    /// What is to be told of it.
    async fn answered(&self, answer: Answer) -> Result<Verdict> {
        match answer {
            Answer::Spent => Ok(Verdict::Gone),
            Answer::Outside { line, revision } => Ok(busy(&line, revision)),
            Answer::Joined { lease, created, line, count } => {
                self.stands(lease, created, false);
                let ahead = ahead_of(&line, created);
                if let Err(error) = self.check(ahead).and(self.check_length(count).await) {
                    self.leave().await?;
                    return Err(error);
                }
                let own = self.own(lease, created);
                match stand(&own, ahead) {
                    Standing::First { .. } if self.session.purpose(lease) == Some(Purpose::Hold) => {
                        Ok(self.granted(lease, created))
                    }
                    // Where only the last were read there is nothing in the line but contenders.
                    standing => self.judge(standing, length(ahead).max(count.saturating_sub(1))).await,
                }
            }
            Answer::Known(own) => {
                let own = Contender::read(&self.store.0.lines, own);
                self.stands(own.lease, own.created, false);
                let line = self.read(self.store.range(all(&self.line)).await?);
                if !line.iter().any(|contender| contender.key == own.key) {
                    return Ok(Verdict::Gone);
                }
                let ahead = ahead_of(&line, own.created);
                self.judge(stand(&own, ahead), length(ahead)).await
            }
        }
    }

    async fn judge(&self, standing: Standing, ahead: u32) -> Result<Verdict> {
        match standing {
            Standing::Absent | Standing::Broken(_) => Ok(Verdict::Gone),
            Standing::First { created, lease } => {
                match self.store.hold(&self.session, &self.key, created, lease).await? {
                    Some(lease) => Ok(self.granted(lease, created)),
                    // It was changed meanwhile, which nobody else does to a claim of ours without ending it.
                    None => Ok(Verdict::Gone),
                }
            }
            Standing::Behind { created, lease, whom, .. } => {
                self.wait_on_a_short_lease(created, lease).await?;
                self.session.waits_for(self.claim.key.id, whom);
                Ok(Verdict::Queued { ahead, seen: Revision::default(), look_again: jittered(LOOK_AGAIN) })
            }
        }
    }

    /// One that was put on a lease for those who hold does not stay there. Where it is on the other already, that one is
    /// fresh then: whoever hears that it waits believes in a waiter's whole life from the sending of the question on.
    async fn wait_on_a_short_lease(&self, revision: i64, lease: i64) -> Result<()> {
        if self.session.has_one_life() {
            return Ok(());
        }
        loop {
            let wait = self.store.lease(&self.session, Purpose::Wait).await?;
            if self.session.purpose(lease) != Some(Purpose::Hold) {
                return Ok(());
            }
            let when = vec![created(&self.key, revision), leased(&self.key, lease)];
            let moved = self.ask(transaction(when, vec![move_to(&self.key, wait)], Vec::new())).await;
            match moved {
                Err(error) if error.kind() == ErrorKind::SessionLost && self.session.purpose(wait).is_some() => {
                    self.session.ended(wait);
                }
                moved => {
                    if moved?.succeeded {
                        self.stands(wait, revision, false);
                    }
                    return Ok(());
                }
            }
        }
    }

    fn granted(&self, lease: i64, created: i64) -> Verdict {
        self.stands(lease, created, true);
        Verdict::Granted { token: created.unsigned_abs() }
    }

    fn stands(&self, lease: i64, created: i64, held: bool) {
        let place = Place { lease, created, held, whom: None, record: Arc::clone(&self.record) };
        self.session.stands(self.claim.key.id, place);
    }

    /// Refuses what does not belong into this line.
    fn check(&self, ahead: &[Contender]) -> Result<()> {
        for other in ahead {
            if other.capacity() != self.claim.capacity {
                return Err(refusal::capacity(other.capacity(), self.claim.capacity));
            }
            let epoch = other.meta().epoch;
            if epoch > self.claim.meta.epoch {
                return Err(refusal::epoch(epoch, self.claim.meta.epoch));
            }
        }
        Ok(())
    }

    /// Refuses a line that is full. Only where it may be is it looked who of those ahead holds.
    async fn check_length(&self, count: u32) -> Result<()> {
        let most = self.claim.max_waiters;
        // Somebody of them holds.
        if count.saturating_sub(1) <= most {
            return Ok(());
        }
        let line = self.read(self.store.range(all(&self.line)).await?);
        let own = line.iter().position(|contender| contender.key == self.key).unwrap_or(line.len());
        let held = standings(&line).take_while(|(_, admitted)| *admitted).count();
        match own >= held && u32::try_from(own - held).unwrap_or(u32::MAX) >= most {
            true => Err(refusal::queue_full(most)),
            false => Ok(()),
        }
    }

    /// Takes it out of the line again.
    async fn leave(&self) -> Result<()> {
        let deleting = transaction(Vec::new(), vec![delete(&self.key)], Vec::new());
        self.ask(deleting).await.map_err(Error::with_unknown_effect).map(drop)
    }

    fn would_be_admitted(&self, line: &[Contender]) -> bool {
        let mut line = line.to_vec();
        line.push(self.own(0, i64::MAX));
        standings(&line).all(|(_, admitted)| admitted)
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

    /// Neither known nor spent.
    fn is_new(&self) -> Vec<Compare> {
        vec![absent(&self.key), absent(&self.gone)]
    }

    /// What tells which of the two it is.
    fn known(&self) -> Vec<RequestOp> {
        vec![get(&self.key), get(&self.gone)]
    }

    fn put(&self, lease: i64) -> RequestOp {
        put(&self.key, self.record.written(), lease)
    }

    /// Of those before one that takes everything the last is enough, where every key in there is a contender.
    fn others(&self) -> RangeRequest {
        match self.is_exclusive() && self.store.0.lines.layout == Layout::Native {
            true => RangeRequest { limit: 3, ..last_two(&self.line, None) },
            false => all(&self.line),
        }
    }

    fn outside(&self, answer: TxnResponse) -> Answer {
        let revision = answer.header.map_or(0, |header| header.revision);
        let mut ranges = ranges(answer.responses);
        let (own, gone, line) = (only(ranges.next()), only(ranges.next()), ranges.next());
        match (own, gone) {
            (Some(own), _) => Answer::Known(own),
            (None, Some(_)) => Answer::Spent,
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

impl EtcdStore {
    /// Moves a claim that is admitted to a lease for those who hold, unless it is there: where it is then; `None` if it
    /// is not there any more. Even where both are the same lease it is changed: who waits for that hears of it.
    pub(super) async fn hold(&self, session: &Session, key: &Bytes, revision: i64, lease: i64) -> Result<Option<i64>> {
        let hold = match session.purpose(lease) {
            Some(Purpose::Hold) => lease,
            _ => self.lease(session, Purpose::Hold).await?,
        };
        let when = vec![created(key, revision), leased(key, lease)];
        let request = transaction(when, vec![move_to(key, hold)], Vec::new());
        let moved: Result<TxnResponse, WireError> = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        match moved {
            Ok(moved) => Ok(moved.succeeded.then_some(hold)),
            Err(error) if error.is_no_lease() => Err(sessions::lost()),
            Err(error) => Err(fault::of(error)),
        }
    }
}

fn length(line: &[Contender]) -> u32 {
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

fn deletions(keys: &[Bytes]) -> Vec<RequestOp> {
    keys.iter().map(delete).collect()
}

fn known_or_spent(responses: Vec<super::wire::messages::ResponseOp>) -> Answer {
    match only(ranges(responses).next()) {
        Some(own) => Answer::Known(own),
        None => Answer::Spent,
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
