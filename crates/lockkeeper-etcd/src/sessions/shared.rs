//! What the clients of a detached session write for each other, below `.session/<lease>`: the
//! leases beside the first one, and reports of claims that a client has missed in its list.
//!
//! Each client renews with a list of its own, so no client alone can recognize a leftover. A client
//! that misses a claim puts a report. A client that lists the claim removes the report before its
//! renewal answers. When the report has stood for a whole ttl, one transaction removes the report
//! and the claim, or leaves the claim on the timer of its minimum hold.

use std::sync::Arc;

use bytes::Bytes;

use super::leases::Purpose;
use super::lists::Verdicts;
use super::lost;
use super::session::Session;
use crate::layout::transaction::{absent, created, delete, present, put, transaction};
use crate::layout::{Missed, SessionPart};
use crate::store::{Live, SessionId};
use crate::time::Instant;
use crate::wire::all;
use crate::wire::messages::{Compare, KeyValue, RangeResponse, TxnResponse};
use crate::{Effect, Error, EtcdStore, Result, fault};

impl EtcdStore {
    /// Reads the keys of the other clients, and removes each report about a claim that this client
    /// lists. Returns the other reports.
    ///
    /// # Errors
    /// `SessionLost` if the session has ended.
    pub(crate) async fn catch_up(
        &self,
        id: &SessionId,
        session: &Arc<Session>,
        live: &[Live],
        now: Instant,
    ) -> Result<Vec<Missed>> {
        // As a renewal of leases, this must leave time for another try.
        let within = session.spec.ttl / 4;
        let found = self
            .0
            .calls
            .ask_within("/etcdserverpb.KV/Range", self.0.lines.of_session(id).all(), within)
            .await;
        let found: RangeResponse = found.map_err(|error| fault::of(error).without_effect())?;
        let found = found.kvs;
        self.is_there(session, &found)?;
        session.learn_leases(&self.0.lines, &found, now);
        let mut missed: Vec<Missed> =
            found.into_iter().filter_map(|kv| self.missed(id, kv)).collect();
        if missed.is_empty() {
            return Ok(missed);
        }
        let listed: Vec<Bytes> =
            live.iter().map(|live| session.claims.slot_of(&self.0.lines, &live.key).at).collect();
        let (ours, others): (Vec<_>, Vec<_>) =
            missed.drain(..).partition(|missed| listed.contains(&missed.claim));
        for chunk in ours.chunks(100) {
            let then = chunk.iter().map(|missed| delete(&missed.key)).collect();
            let request = transaction(Vec::new(), then, Vec::new());
            let taken_back = self.0.calls.ask_within("/etcdserverpb.KV/Txn", request, within).await;
            let _: TxnResponse = taken_back.map_err(fault::of)?;
        }
        Ok(others)
    }

    /// Whether this is a lease of the session. A key shows a lease that another client has made.
    pub(crate) async fn is_lease_of(&self, session: &Session, lease: i64) -> Result<bool> {
        if session.leases.purpose(lease).is_some() || !session.is_shared() {
            return Ok(session.leases.purpose(lease).is_some());
        }
        self.learn_leases(session).await.map_err(Error::with_unknown_effect)?;
        Ok(session.leases.purpose(lease).is_some())
    }

    /// Reads which leases the other clients of a detached session have made.
    ///
    /// # Errors
    /// `SessionLost` if the session has ended.
    pub(crate) async fn learn_leases(&self, session: &Session) -> Result<()> {
        let found = self.range(self.0.lines.of_session(&session.id).all()).await?.kvs;
        self.is_there(session, &found)?;
        session.learn_leases(&self.0.lines, &found, self.0.clock.now());
        Ok(())
    }

    /// Whether these keys are of this session, and not of a later one with the same id.
    fn is_there(&self, session: &Session, found: &[KeyValue]) -> Result<()> {
        let record = self.0.lines.session(&session.id);
        match found.iter().any(|kv| kv.key == record && kv.create_revision == session.recorded) {
            true => Ok(()),
            false => Err(lost()),
        }
    }

    /// A detached session is there, and no client has begun to close it. Without this comparison a
    /// claim could be put on the first lease of a later session with the same id, or on a lease
    /// that is about to be revoked.
    pub(crate) fn is_open(&self, session: &Session) -> Vec<Compare> {
        let (record, ended) = (self.0.lines.session(&session.id), self.0.lines.ended(&session.id));
        vec![created(&record, session.recorded), absent(&ended)]
    }

    fn missed(&self, id: &SessionId, kv: KeyValue) -> Option<Missed> {
        match self.0.lines.part_of_session(id, &kv.key)? {
            // Another program may have written a key that does not fit its value.
            SessionPart::Missed if self.0.lines.missed(id, &kv.value) == kv.key => {
                Some(Missed { created: kv.create_revision, key: kv.key, claim: kv.value })
            }
            _ => None,
        }
    }

    /// Puts a report for each missed claim, and removes the leftovers.
    pub(crate) async fn report(&self, id: &SessionId, verdicts: Verdicts) {
        let said = verdicts.missed.iter().map(|claim| self.say_missed(id, claim));
        let gone = verdicts.over.iter().map(|leftover| self.remove_leftover(leftover));
        for written in all(said).await.into_iter().chain(all(gone).await) {
            if let Err(error) = written {
                tracing::debug!(target: "lockkeeper", store = %self, %error, "leftovers were not removed");
            }
        }
    }

    async fn say_missed(&self, id: &SessionId, claim: &Bytes) -> Result<()> {
        let key = self.0.lines.missed(id, claim);
        let then = vec![put(&key, claim.clone(), self.0.lines.lease_of(id))];
        self.write(transaction(vec![absent(&key), present(claim)], then, Vec::new())).await
    }

    pub(crate) async fn write(&self, request: crate::wire::messages::TxnRequest) -> Result<()> {
        let answer = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        answer.map(|_: TxnResponse| ()).map_err(fault::of)
    }

    /// Shows a lease without claims to the other clients.
    ///
    /// # Errors
    /// `SessionLost` if the session was closed meanwhile. Then the lease is revoked. If no answer
    /// came, another client may have seen and chosen the lease: the lease ends by itself unless
    /// that client renews it.
    pub(crate) async fn show_lease(
        &self,
        session: &Session,
        lease: i64,
        purpose: Purpose,
    ) -> Result<()> {
        let key = self.0.lines.session_lease(&session.id, lease, purpose == Purpose::Hold);
        let request =
            transaction(self.is_open(session), vec![put(&key, Bytes::new(), lease)], Vec::new());
        let shown = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await.map_err(fault::of);
        let refused: Error = match shown {
            Ok(TxnResponse { succeeded: true, .. }) => return Ok(()),
            Ok(_) => lost(),
            Err(error) if error.effect() == Effect::Unknown => return Err(error),
            Err(error) => error,
        };
        self.revoke_unneeded(lease);
        Err(refused)
    }
}
