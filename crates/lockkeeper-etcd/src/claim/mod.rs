//! Putting a claim into its line.
//!
//! [`claim`] reads from top to bottom: it gives the claim a key slot, waits for the turn of the
//! claim among the claims of this client on the name, sends the one transaction that decides, and
//! makes a verdict of the [`Outcome`]. `join`, `attempt`, `replace` and `resend` build the
//! transactions of the four kinds of claims; `verdict` reads the outcome, `takeover` has the claims
//! that an earlier request has put, and `refusals` the claims that do not belong into the line.
//!
//! etcd processes a transaction as a whole, at one revision: it compares, does one of the two
//! branches, and no other request takes effect in between. If a branch puts a key that was not
//! there, this revision becomes its create revision: the claim's place in line, and its token. If
//! etcd refuses a transaction because one of its leases has ended, etcd has done no part of it.
//!
//! ```text
//! transaction          compared                   if all holds                if not
//! -------------------  -------------------------  --------------------------  ---------------------
//! join, first          new; line empty            put on the hold lease:      nested: join, behind
//!                                                 Joined, and alone
//! join, behind         new                        put on the wait lease,      Known, Retired
//!                                                 read the claims ahead:
//!                                                 Joined
//! join, behind,        new                        read the claims ahead;      Known, Retired
//!  without wait lease                             then make a wait lease,
//!                                                 and begin again
//! attempt, at first    new; line empty            put on the hold lease:      Known, Retired, or by
//!                                                 Held                        the line: Outside, or
//!                                                                             attempt after a look
//! attempt, after       new; no key of the line    the same                    the same, 32 times;
//!  a look              created since the look                                 then join, and leave
//!                                                                             again if not admitted
//! replace              new; old claim there, on   delete the old claim, put   Known, Retired, or by
//!                      its lease (in a detached   on the hold lease: Held     the line: Outside, or
//!                      session: unchanged); line                              again as it was moved
//!                      empty but for it
//! resend               key not there              put the tombstone: Retired  Known
//! ```
//!
//! - *new*: neither the key of the claim nor its tombstone is there. If it is not new, the
//!   transaction reads both: `Known` or `Retired`.
//! - *line empty*: the line has no keys, or only keys that releases of this client are about to
//!   delete. The transaction deletes these too, since it may overtake the releases.
//! - A claim that is not exclusive joins behind on the hold lease, since it may be admitted beside
//!   others. If it is not, it moves to a wait lease before its caller learns that it waits.

mod attempt;
mod join;
mod refusals;
mod replace;
mod resend;
mod takeover;
mod transactions;
mod verdict;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use lockkeeper_core::sync::lock;
use tokio::sync::OwnedMutexGuard;

use self::replace::Replaced;
use crate::client::OrderGuard;
use crate::keep::Timer;
use crate::layout::{Contender, Record, Span};
use crate::sessions::Session;
use crate::store::{Claim, ClaimKey, MAX, Verdict};
use crate::{Effect, Error, EtcdStore, Result, fault};

/// One claim, on its way into its line.
struct Claiming {
    store: EtcdStore,
    claim: Claim,
    session: Arc<Session>,
    line: Span,
    /// The key of the claim.
    key: Bytes,
    /// The key of its tombstone.
    tombstone: Bytes,
    /// In a detached session: the key by which a client reports that it has missed the claim.
    report: Option<Bytes>,
    record: Arc<Record>,
    /// The claim that the claim replaces.
    replaced: Option<Replaced>,
    /// The timer of the minimum hold that the claim inherits from the claim which it replaces.
    timer: Option<Timer>,
    /// The claim's place among the claims of this client on this name.
    order_guard: OrderGuard,
    /// The turn of the claim, until etcd has answered its transaction.
    gate: Mutex<Option<OwnedMutexGuard<()>>>,
}

/// The outcome of the transaction.
enum Outcome {
    /// The claim is in line.
    Joined(Joined),
    /// The claim is in line on a hold lease, and nothing blocks it. Its record may say since when
    /// it holds.
    Held { lease: i64, created: i64, is_dated: bool },
    /// The claim was there before, or another claim has its key.
    Known(Box<Earlier>),
    /// The id of the claim has a tombstone.
    Retired,
    /// The claim was not put in line: this is the line, at this revision.
    Outside { line: Vec<Contender>, revision: i64 },
}

/// A claim that an earlier request has put, or another claim in its place.
struct Earlier {
    own: Contender,
    /// A client of the detached session has reported that it has missed the claim.
    is_reported: bool,
}

/// A claim that has joined its line.
struct Joined {
    lease: i64,
    /// The revision of the transaction.
    created: i64,
    /// The claims ahead, as far as they were read, and perhaps the claim itself.
    line: Vec<Contender>,
    /// How many keys the line has.
    count: u32,
    /// The record says since when the claim holds, if it holds.
    is_dated: bool,
}

pub(super) async fn claim(store: &EtcdStore, claim: &Claim) -> Result<Verdict> {
    store.0.lines.check_name(&claim.key.name)?;
    let (claiming, outcome) = match store.0.sessions.known_in_order(&claim.key.session) {
        Some(session) => {
            let claiming = Arc::new(Claiming::prepare(store, claim, session).await?);
            let outcome = claiming.ask().await;
            (claiming, outcome)
        }
        None => Claiming::find_session_and_ask(store, claim).await?,
    };
    let verdict = match outcome {
        Ok(outcome) => claiming.verdict_of(outcome).await,
        Err(error) => Err(error),
    };
    claiming.note(&verdict);
    verdict
}

impl Claiming {
    /// Gives the claim a key slot, and collects what its transaction needs.
    async fn prepare(store: &EtcdStore, claim: &Claim, session: Arc<Session>) -> Result<Self> {
        let slot = session.claims.slot(&store.0.lines, &claim.key, store.0.clock.now());
        session.claims.replaces(claim.key.id, claim.replaces);
        let (replaced, timer) = match claim.replaces {
            Some(old) => match replace::replaced_by(store, &session, claim, old).await {
                Ok((replaced, timer)) => (Some(replaced), timer),
                Err(error) => {
                    if !may_be_in_line(claim, &error) {
                        session.claims.releases_slot(&claim.key, store.0.clock.now());
                    }
                    return Err(error);
                }
            },
            None => (None, None),
        };
        let is_shared = session.is_shared();
        let report = is_shared.then(|| store.0.lines.missed(&session.id, &slot.at));
        let mut record = Record::of(claim, &store.0.client);
        record.keep = timer.map(|timer| timer.keep);
        Ok(Self {
            store: store.clone(),
            claim: claim.clone(),
            session,
            line: store.0.lines.of(&claim.key.name),
            key: slot.at,
            tombstone: store.0.lines.gone(claim.key.id),
            report,
            record: Arc::new(record),
            replaced,
            timer,
            order_guard: store.0.order.guard(&claim.key.name),
            gate: Mutex::default(),
        })
    }

    /// Looks for the session of the claim first. The store's runtime does that, as other calls look
    /// for the session too. It also sends the claim, so that the first claims of this client stay
    /// in the order of their calls.
    async fn find_session_and_ask(
        store: &EtcdStore,
        claim: &Claim,
    ) -> Result<(Arc<Self>, Result<Outcome>)> {
        let call = Arc::new(());
        let (store, claim, is_awaited) = (store.clone(), claim.clone(), Arc::downgrade(&call));
        let runtime = Arc::clone(&store.0);
        let asking = runtime.runtime.carry_on(async move {
            let lookup = store.0.sessions.lookup(&claim.key.session);
            let turn = lookup.gate.enter(store.0.calls.outage()).await?;
            let preparing = async {
                let session = store.find_session(&claim.key.session).await?;
                Self::prepare(&store, &claim, session).await
            };
            let claiming = Arc::new(turn.attempt(preparing).await?);
            if is_awaited.strong_count() == 0 {
                // The call was dropped before the claim had a slot. A withdrawal may have found
                // nothing meanwhile.
                claiming.session.claims.releases_slot(&claim.key, store.0.clock.now());
                return Err(fault::ended());
            }
            let mut asking = pin!(claiming.ask_in_turn());
            // From its first poll on, the claim has its place among the claims of its name.
            let asked = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
            drop(turn);
            drop(lookup);
            let outcome = match asked {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => asking.await,
            };
            Ok((Arc::clone(&claiming), outcome))
        });
        let asked = asking.await.unwrap_or_else(|| Err(fault::ended()));
        drop(call);
        asked
    }

    /// Sends the transaction of the claim when it is its turn. The store's runtime does that: other
    /// claims wait for their turn, whether this future is polled or not.
    async fn ask(self: &Arc<Self>) -> Result<Outcome> {
        let claiming = Arc::clone(self);
        let asking = self.store.0.runtime.carry_on(async move { claiming.ask_in_turn().await });
        asking.await.unwrap_or_else(|| Err(fault::ended()))
    }

    async fn ask_in_turn(&self) -> Result<Outcome> {
        let gate = Arc::clone(&self.order_guard.gate).lock_owned().await;
        lock(&self.gate).replace(gate);
        let _turn = Turn(self);
        if !self.session.claims.has_slot(self.claim.key.id) {
            // The claim was withdrawn while it waited for its turn. If it were sent now, nothing
            // would withdraw it again.
            return Ok(Outcome::Retired);
        }
        match &self.replaced {
            _ if self.claim.resend => self.resend().await,
            Some(old) => self.replace(old.clone()).await,
            None if self.claim.queue => self.join().await,
            None => self.attempt().await,
        }
    }

    /// Ends the turn of the claim: etcd has answered, so the next claim of this name is behind it.
    fn end_turn(&self) {
        lock(&self.gate).take();
    }

    /// Notes in the session what the verdict means for the claim and its slot.
    fn note(&self, verdict: &Result<Verdict>) {
        let key = &self.claim.key;
        let is_in_line = match verdict {
            Ok(Verdict::Granted { .. }) => {
                self.store.has_replaced(&self.session, key);
                true
            }
            Ok(Verdict::Queued { .. }) => true,
            Ok(_) => false,
            Err(error) => may_be_in_line(&self.claim, error),
        };
        if is_in_line {
            return;
        }
        self.session.claims.left(key.id);
        match verdict {
            // A late request of the claim may still use the slot.
            Ok(Verdict::Gone) => self.session.claims.retires_slot(key.id),
            // No key of the claim is anywhere.
            _ => self.session.claims.releases_slot(key, self.store.0.clock.now()),
        }
    }

    fn is_exclusive(&self) -> bool {
        self.claim.weight == MAX
    }
}

/// Whether a claim that ended with this error may be in its line. A claim that is sent again may
/// have arrived earlier: what failed was the question after it.
fn may_be_in_line(claim: &Claim, error: &Error) -> bool {
    claim.resend || error.effect() == Effect::Unknown
}

/// Ends the turn of a claim when this is dropped.
struct Turn<'a>(&'a Claiming);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end_turn();
    }
}

impl EtcdStore {
    /// The claim holds. A claim that it has replaced is gone, with its keys.
    pub(super) fn has_replaced(&self, session: &Session, key: &ClaimKey) {
        let Some(old) = session.claims.has_replaced(key.id) else { return };
        let Some(of_old) = self.0.sessions.of(old) else { return };
        of_old.claims.left(old);
        of_old.claims.releases_slot(&ClaimKey { id: old, ..key.clone() }, self.0.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::store::{ClaimId, SessionId, SessionSpec, Store as _};

    #[tokio::test]
    async fn a_claim_withdrawn_during_its_wait_for_order_is_never_sent() {
        let store = EtcdStore::unasked(&EtcdStore::new(["127.0.0.1:1"])).unwrap();
        let (now, ttl, session) =
            (store.0.clock.now(), Duration::from_secs(30), SessionId::random());
        let spec = SessionSpec::new(ttl, Duration::ZERO);
        store.0.sessions.opened(&session, &spec, true, now);
        let claim = Claim::exclusive(
            ClaimKey { name: "n".parse().unwrap(), session, id: ClaimId::random() },
            &spec,
        );
        let other = store.0.order.guard(&claim.key.name);
        let passing = other.gate.lock().await;
        let mut claiming = store.claim(&claim);
        assert!(claiming.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        store.0.sessions.known(&claim.key.session).unwrap().claims.releases_slot(&claim.key, now);
        drop(passing);
        assert_eq!(
            claiming.await.unwrap(),
            Verdict::Gone,
            "nobody listens where it would have been sent"
        );
    }
}
