//! The minimum hold of a claim. Its *timer* is a lease that no client renews, so etcd's clock ends
//! it. While the lease of the session may end before the timer, the claim is on the timer; later it
//! moves back. A release that comes too early leaves the key in the line, on the timer, and its
//! record says that the holder has released it.

mod last_lease;
mod letting_go;
mod timer;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::timer::Timer;
use crate::layout::transaction::{changed, delete, get, only, put, ranges, rewrite, transaction};
use crate::layout::{Contender, Keep};
use crate::layout::{millis, unix_ms};
use crate::sessions::KeySlot;
use crate::sessions::{self, Session};
use crate::store::{Amended, ClaimId, ClaimKey};
use crate::wire::messages::TxnResponse;
use crate::{Effect, Error, ErrorKind, EtcdStore, Result, fault};

/// How often a change is tried because something else changes the claim meanwhile.
const TRIES: u32 = 16;
/// A new leader of etcd lengthens every lease. A client takes such a minimum hold for over so much
/// later than its own clock says.
const OVERDUE: Duration = Duration::from_secs(10);

/// What a withdrawn claim leaves in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: the key is to be deleted.
    Nothing,
    /// The minimum hold, because of this withdrawal.
    Kept,
    /// The minimum hold, because of an earlier withdrawal.
    KeptBefore,
}

/// The outcome of writing a timer into the record of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    /// The record names this timer.
    Done,
    /// The record does not name this timer: a copy of the change has come before it, for example.
    Not(Amended),
    /// The record names another timer meanwhile.
    Outrun,
}

/// Begins a minimum hold. The work goes on if the caller drops its future: the timer would run
/// without a claim otherwise.
pub(crate) async fn begin(
    store: &EtcdStore,
    key: &ClaimKey,
    number: u64,
    hold: Duration,
) -> Result<Amended> {
    store.can().keeps(hold)?;
    let (own, key) = (store.clone(), key.clone());
    let beginning = store.0.runtime.carry_on(async move { own.begin(&key, number, hold).await });
    beginning.await.unwrap_or_else(|| Err(fault::ended()))
}

impl EtcdStore {
    async fn begin(&self, key: &ClaimKey, number: u64, hold: Duration) -> Result<Amended> {
        for _ in 0..TRIES {
            if let Some(amended) = self.begin_unless_another_does(key, number, hold).await? {
                return Ok(amended);
            }
        }
        Err(fault::always_changes())
    }

    /// `None` if another entry of this claim has begun a minimum hold meanwhile, which may be
    /// longer.
    async fn begin_unless_another_does(
        &self,
        key: &ClaimKey,
        number: u64,
        hold: Duration,
    ) -> Result<Option<Amended>> {
        let session = self.session(&key.session).await?;
        let Some((own, is_admitted)) = self.look_at_own(key).await? else {
            return Ok(Some(Amended::NotLive));
        };
        let Some(record) = own.record.as_ref().filter(|_| is_admitted && !own.is_over()) else {
            return Ok(Some(Amended::NotLive));
        };
        let before = own.keep().copied();
        let amended = Amended::of_number(number, record.change);
        if let Some(Amended::Older { .. }) = amended {
            return Ok(amended);
        }
        // The answer to the request that began the minimum hold may have been lost: then any rest
        // of the minimum hold counts.
        let least = if amended.is_some() { Duration::ZERO } else { hold };
        let timer = if before.is_some() { self.still_runs(before, least).await? } else { None };
        if let Some(timer) = timer {
            session.claims.times(key.id, timer);
        }
        if amended.is_some() {
            return Ok(amended);
        }
        if hold.is_zero() || timer.is_some() {
            return self.note_change(&session, key, &own, number).await;
        }
        let (sent, lease) = (self.0.clock.now(), sessions::random_lease());
        let granted = self.grant_chosen(lease, sessions::seconds(hold)).await.map_err(fault::of);
        if granted.as_ref().is_err_and(|error| error.effect() == Effect::Unknown) {
            session.claims.may_be_timed(key.id, lease);
        }
        let term = granted?;
        let keep =
            Keep { lease, until_ms: unix_ms().saturating_add(millis(hold)), term, released: false };
        let timer = Timer::new(keep, hold, sent, self.0.clock.now());
        // The timers of earlier requests are not needed once the record names this one.
        let slot = session.claims.slot_of(&self.0.lines, key);
        let unneeded: Vec<_> = slot.strays().chain(before.map(|keep| keep.lease)).collect();
        let put = self.put_on(&session, key, own, number, &timer).await;
        match &put {
            Ok(Put::Done) => unneeded.into_iter().for_each(|timer| self.revoke_unneeded(timer)),
            Err(error) if error.effect() == Effect::Unknown => {
                session.claims.may_be_timed(key.id, lease)
            }
            // The claim may be on an earlier timer.
            _ => self.revoke_unneeded(lease),
        }
        put.map(|put| match put {
            Put::Done => Some(Amended::Done),
            Put::Not(amended) => Some(amended),
            Put::Outrun => None,
        })
    }

    /// Writes the number of a change that changes nothing else. `None` if the claim was changed
    /// meanwhile.
    async fn note_change(
        &self,
        session: &Session,
        key: &ClaimKey,
        own: &Contender,
        number: u64,
    ) -> Result<Option<Amended>> {
        let Some(mut record) = own.record.clone() else { return Ok(Some(Amended::NotLive)) };
        record.change = number;
        let when = vec![changed(&own.key, own.changed)];
        let request = transaction(when, vec![rewrite(&own.key, record.written())], Vec::new());
        let asked = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        let answer: TxnResponse = asked.map_err(fault::of)?;
        if answer.succeeded {
            session.claims.shows(key.id, record);
        }
        Ok(answer.succeeded.then_some(Amended::Done))
    }

    /// Writes the timer into the record of the claim, and puts the claim on the lease that ends
    /// last.
    async fn put_on(
        &self,
        session: &Arc<Session>,
        key: &ClaimKey,
        mut own: Contender,
        number: u64,
        timer: &Timer,
    ) -> Result<Put> {
        let keep_of = |claim: &Contender| claim.keep().map(|keep| keep.lease);
        let before = keep_of(&own);
        for _ in 0..TRIES {
            let Some(mut record) = own.record.clone().filter(|_| !own.is_over()) else {
                return Ok(Put::Not(Amended::NotLive));
            };
            if let Some(amended) = Amended::of_number(number, record.change) {
                return Ok(Put::Not(amended));
            }
            (record.keep, record.change) = (Some(timer.keep), number);
            record.held_ms.get_or_insert_with(unix_ms);
            // This comes before the choice of the lease. A renewal that is acknowledged from now on
            // looks for the claim and changes its key. So the transaction below is processed before
            // such a renewal, or its comparison fails.
            session.claims.is_unsettled(key.id);
            let on =
                self.last_to_end(session, own.lease, timer).await.map_err(Error::without_effect)?;
            let then = vec![put(&own.key, record.written(), on)];
            let mut when = vec![changed(&own.key, own.changed)];
            if session.is_shared() {
                when.extend(self.is_open(session));
            }
            let request = transaction(when, then, vec![get(&own.key)]);
            let within = session.spec.ttl / 4;
            let asked = self.0.calls.ask_within("/etcdserverpb.KV/Txn", request, within).await;
            let answer: TxnResponse =
                asked.map_err(|error| match error.is_no_lease() && on == timer.keep.lease {
                    true => over_before(),
                    false => fault::of_a_put(error),
                })?;
            if answer.succeeded {
                session.claims.shows(key.id, record);
                session.claims.is_timed(key.id, *timer, on);
                session.claims.is_dated(key.id);
                return Ok(Put::Done);
            }
            let found = only(ranges(answer.responses).next()).map(Contender::read);
            match found.filter(|found| found.created == own.created) {
                // The session is being closed: the claim ends with it.
                Some(found) if found.changed == own.changed => {
                    return Ok(Put::Not(Amended::NotLive));
                }
                Some(found) if keep_of(&found) == before => own = found,
                Some(_) => return Ok(Put::Outrun),
                None => return Ok(Put::Not(Amended::NotLive)),
            }
        }
        Err(fault::always_changes())
    }

    /// Whether the minimum hold of the claim in this slot may not be over. If the timers of the
    /// session are not known, any claim may have a minimum hold.
    pub(crate) fn may_be_kept(&self, slot: &KeySlot, are_known: bool) -> bool {
        !are_known || slot.timer.is_some_and(|timer| timer.is_over > self.0.clock.now())
    }

    /// Leaves a claim in its line if its minimum hold is not over, as etcd has it.
    pub(crate) async fn leave_kept(
        &self,
        session: &Session,
        key: &ClaimKey,
        slot: &KeySlot,
    ) -> Result<Left> {
        for _ in 0..TRIES {
            let Some(own) = self.claim_in(session, slot, key.id).await? else {
                return Ok(Left::Nothing);
            };
            if let Some(left) = self.leave_as_read(&own, slot).await? {
                return Ok(left);
            }
        }
        Err(fault::always_changes())
    }

    /// Leaves a claim that was read in its line if its minimum hold is not over. `None` if the
    /// claim was changed meanwhile.
    pub(crate) async fn leave_as_read(
        &self,
        own: &Contender,
        slot: &KeySlot,
    ) -> Result<Option<Left>> {
        let Some((mut record, keep)) = own.record.clone().zip(own.keep().copied()) else {
            return Ok(Some(Left::Nothing));
        };
        if own.is_broken() {
            self.revoke_unneeded(keep.lease);
            return Ok(Some(Left::Nothing));
        }
        if keep.released {
            // The answer to an earlier withdrawal was lost.
            return Ok(Some(if slot.timer.is_some() { Left::Kept } else { Left::KeptBefore }));
        }
        let timer = keep.lease;
        record.keep = Some(Keep { released: true, ..keep });
        let then = vec![put(&own.key, record.written(), timer)];
        let request = transaction(vec![changed(&own.key, own.changed)], then, Vec::new());
        match self.txn(request).await {
            Ok(TxnResponse { succeeded, .. }) => Ok(succeeded.then_some(Left::Kept)),
            // The timer has ended, and the minimum hold with it.
            Err(error) if error.is_no_lease() => Ok(Some(Left::Nothing)),
            // etcd cannot write the record. But the claim is on its timer, which no client
            // renews.
            Err(error) if error.is_no_space() && own.lease == timer => Ok(Some(Left::Kept)),
            Err(error) => Err(fault::of(error)),
        }
    }

    /// The key of the slot, if it is this claim of the session.
    pub(crate) async fn claim_in(
        &self,
        session: &Session,
        slot: &KeySlot,
        id: ClaimId,
    ) -> Result<Option<Contender>> {
        let own = self.read(&slot.at).await?.map(Contender::read);
        Ok(own.filter(|own| own.id == Some(id) && session.may_have_made(own.created)))
    }

    /// The timer that was begun before, if it lasts for so long.
    async fn still_runs(&self, keep: Option<Keep>, hold: Duration) -> Result<Option<Timer>> {
        let Some(keep) = keep else { return Ok(None) };
        let (sent, left) = (self.0.clock.now(), self.left_of(keep.lease).await?);
        let left = left.filter(|left| *left >= hold);
        Ok(left.map(|left| Timer::found(keep, left, sent, self.0.clock.now())))
    }

    /// Whether only the minimum hold of a claim is left: its holder has released it, or its session
    /// has ended.
    pub(crate) async fn is_kept(&self, contender: &Contender) -> Result<bool> {
        match contender.session_to_ask() {
            Some(session) => Ok(self.left_of(session).await?.is_none()),
            None => Ok(contender.is_released()),
        }
    }

    /// Ends the minimum holds in a line that a new leader of etcd has lengthened and that are over
    /// by the clock here. A new leader gives every lease its whole ttl again. Returns whether it
    /// ended one.
    pub(crate) async fn ends_overdue(&self, line: &[Contender]) -> bool {
        let mut ended = false;
        let now = unix_ms();
        for contender in line {
            let Some(keep) = contender.keep().filter(|keep| keep.lease == contender.lease) else {
                continue;
            };
            if keep.until_ms.saturating_add(millis(OVERDUE)) < now
                && self.is_lengthened(contender, keep).await.unwrap_or(false)
            {
                ended |= self.ends(contender, keep.lease).await;
            }
        }
        ended
    }

    /// Deletes this claim if it has not changed, and then ends its timer. Otherwise a claim that
    /// has replaced it may be on the timer.
    async fn ends(&self, contender: &Contender, timer: i64) -> bool {
        let when = vec![changed(&contender.key, contender.changed)];
        let request = transaction(when, vec![delete(&contender.key)], Vec::new());
        let answer = self.txn(request).await;
        let is_ended = answer.is_ok_and(|answer: TxnResponse| answer.succeeded);
        if is_ended {
            self.revoke_unneeded(timer);
        }
        is_ended
    }

    /// Whether etcd has had another leader since this minimum hold began, and only the minimum hold
    /// is left of the claim. While the leader is the same, its clock alone ends the minimum hold.
    async fn is_lengthened(&self, contender: &Contender, keep: &Keep) -> Result<bool> {
        let term = self.asked_of(keep.lease).await?.header.map_or(0, |header| header.raft_term);
        Ok(keep.term != 0 && term > keep.term && self.is_kept(contender).await?)
    }
}

/// The timer has ended before the claim was on it.
fn over_before() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd took longer to begin the minimum hold than that lasts")
        .with_remedy("again in a moment")
}
