//! Opening, finding and closing a session. The first lease of a session is a hash of its id, so
//! that the same id is the same session.
//!
//! A detached session has a record beside its claims, for clients that have not opened it.

use std::sync::Arc;

use super::session::Session;
use super::tombstones::REMEMBERED;
use super::{lost, seconds};
use crate::layout::transaction::{absent, get, only, put, range, ranges, transaction};
use crate::layout::{SessionPart, SessionRecord};
use crate::store::{Live, Opened, SessionId, SessionSpec, Store as _, refusal};
use crate::time::Instant;
use crate::wire::all;
use crate::wire::messages::{
    KeyValue, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, TxnResponse,
};
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

impl EtcdStore {
    /// Opens a session, or finds it open.
    pub(crate) async fn open_session(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let sent = self.0.clock.now();
        if self.0.sessions.was_closed(id, sent) {
            return Err(refusal::session_ended());
        }
        match self.0.sessions.known(id) {
            Some(session) => self.open_again(&session, spec).await?,
            None => self.open_first(id, spec, sent).await?,
        }
        Ok(Opened { ttl: spec.ttl })
    }

    /// Opens a session that this client knows: its ttl begins again.
    async fn open_again(&self, session: &Session, spec: &SessionSpec) -> Result<()> {
        let lives = match self.refresh_all(session).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => false,
            lives => lives?,
        };
        if !lives {
            self.0.sessions.lost(session);
            return Err(refusal::session_ended());
        }
        match is_same(&session.spec, spec) {
            true => Ok(()),
            false => Err(refusal::other_durations()),
        }
    }

    async fn open_first(&self, id: &SessionId, spec: &SessionSpec, sent: Instant) -> Result<()> {
        let (lease, seconds) = (self.0.lines.lease_of(id), seconds(spec.ttl + spec.lock_delay));
        let is_new = self.grant_as(lease, seconds).await?;
        if !is_new {
            self.finds_its_lease(id, lease, spec).await?;
        }
        let recorded = if spec.detached { self.record(id, lease, spec).await? } else { 0 };
        let session = Session::opened(&self.0.lines, id, spec, is_new, recorded, sent);
        if !is_new && !self.refresh_all(&session).await? {
            return Err(refusal::session_ended());
        }
        match is_same(&self.0.sessions.insert(session, sent).spec, spec) {
            true => Ok(()),
            false => Err(refusal::other_durations()),
        }
    }

    /// Whether the lease with the id of this session's first lease is that lease: it has the right
    /// ttl, and only keys of this session. Then the answer to an earlier request was lost, or
    /// another client has opened the session.
    ///
    /// # Errors
    /// `Invalid` for a session that is detached and should not be, or the reverse: a client that
    /// takes the session for its own would remove what it has not made.
    async fn finds_its_lease(&self, id: &SessionId, lease: i64, spec: &SessionSpec) -> Result<()> {
        let request = LeaseTimeToLiveRequest { id: lease, keys: true };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseTimeToLive", request).await;
        let found: LeaseTimeToLiveResponse =
            asked.map_err(|error| fault::of(error).without_effect())?;
        if found.ttl < 0 {
            // The lease has just ended.
            return Err(refusal::session_ended());
        }
        let record = self.0.lines.session(id);
        let is_recorded = found.keys.contains(&record);
        // If there is a record, it has the durations of the session.
        let fits = is_recorded || found.granted_ttl == seconds(spec.ttl + spec.lock_delay);
        if !fits || !found.keys.iter().all(|key| self.0.lines.is_of_session(id, key)) {
            return Err(taken());
        }
        // A detached session has its record before any claim.
        match is_recorded == spec.detached || found.keys.is_empty() {
            true => Ok(()),
            false => Err(refusal::other_durations()),
        }
    }

    /// Writes the record of a detached session, before the first claim, unless there is a record.
    /// Returns the revision that created the record.
    ///
    /// A refused client leaves the first lease alone, although it may have made the lease: another
    /// client may have opened the session meanwhile. A lease without a session ends by itself.
    async fn record(&self, id: &SessionId, lease: i64, spec: &SessionSpec) -> Result<i64> {
        let (record, ended) = (self.0.lines.session(id), self.0.lines.ended(id));
        let then = vec![put(&record, SessionRecord::of(spec).written(), lease)];
        let request = transaction(
            vec![absent(&record), absent(&ended)],
            then,
            vec![get(&record), get(&ended)],
        );
        let asked = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        let answer: TxnResponse = asked.map_err(|error| match error.is_no_lease() {
            true => refusal::session_ended(),
            false => fault::of(error),
        })?;
        if answer.succeeded {
            return Ok(answer.header.map_or(0, |header| header.revision));
        }
        let mut found = ranges(answer.responses);
        match (only(found.next()), only(found.next())) {
            (Some(kv), None) => match recorded(&kv, lease) {
                Some(found) if is_same(&found, spec) => Ok(kv.create_revision),
                Some(_) => Err(refusal::other_durations()),
                None => Err(taken()),
            },
            _ => Err(refusal::session_ended()),
        }
    }

    /// The session of this id. A detached session that another client has opened is read from etcd.
    ///
    /// # Errors
    /// `SessionLost` for a session that is not there.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<Arc<Session>> {
        match self.0.sessions.known(id) {
            Some(session) => Ok(session),
            None => self.session_in_order(id).await,
        }
    }

    /// The same, after the claims that look for the session at this moment.
    pub(crate) async fn session_in_order(&self, id: &SessionId) -> Result<Arc<Session>> {
        if let Some(session) = self.0.sessions.known_in_order(id) {
            return Ok(session);
        }
        let (store, id) = (self.clone(), id.clone());
        let finding = self.0.runtime.carry_on(async move {
            let lookup = store.0.sessions.lookup(&id);
            lookup.gate.pass(store.0.calls.outage(), store.find_session(&id)).await
        });
        finding.await.unwrap_or_else(|| Err(fault::ended()))
    }

    /// The same, for a call whose turn it is among the calls that look for the session.
    pub(crate) async fn find_session(&self, id: &SessionId) -> Result<Arc<Session>> {
        if let Some(session) = self.0.sessions.known(id) {
            return Ok(session);
        }
        let now = self.0.clock.now();
        if self.0.sessions.was_closed(id, now) {
            return Err(lost());
        }
        let found = self.read(&self.0.lines.session(id)).await?;
        let said = |kv: KeyValue| {
            recorded(&kv, self.0.lines.lease_of(id)).map(|spec| (spec, kv.create_revision))
        };
        let (spec, revision) = found.and_then(said).ok_or_else(lost)?;
        let session = self
            .0
            .sessions
            .insert(Session::opened(&self.0.lines, id, &spec, false, revision, now), now);
        self.begin_to_listen();
        Ok(session)
    }

    pub(crate) async fn close_session(&self, id: &SessionId, live: &[Live]) -> Result<()> {
        let session = match self.session(id).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => {
                return self.close_what_is_left(id).await;
            }
            session => session?,
        };
        // A lease that is being made is ended too, and no lease is made after that.
        session.gate.close().await;
        if session.is_shared() {
            let found = self.remember_ended(id).await?;
            session.learn_leases(&self.0.lines, &found, self.0.clock.now());
            self.end_marked(id, &found).await?;
        }
        let leases = session.leases.ids();
        if session.is_shared() {
            self.leave_on_timers(&leases).await?;
        }
        let elsewhere = self.not_on(&session, id, &leases, live).await?;
        for withdrawn in all(elsewhere.iter().map(|key| self.withdraw(key, None))).await {
            withdrawn?;
        }
        // The first lease last: its record shows the other leases to a client that has to repeat
        // the close.
        for lease in leases.into_iter().rev() {
            self.revoke(lease).await?;
        }
        self.0.sessions.closed(id, self.0.clock.now() + REMEMBERED);
        Ok(())
    }

    /// The first lease of a session has ended, and another one may be there, with claims.
    async fn close_what_is_left(&self, id: &SessionId) -> Result<()> {
        let found = self.remember_ended(id).await?;
        self.end_marked(id, &found).await?;
        let lease = |kv: &KeyValue| match self.0.lines.part_of_session(id, &kv.key) {
            Some(SessionPart::Lease { id: lease, .. }) => Some(lease).filter(|id| *id == kv.lease),
            _ => None,
        };
        let leases: Vec<i64> = found.iter().filter_map(lease).collect();
        self.leave_on_timers(&leases).await?;
        for lease in leases {
            self.revoke(lease).await?;
        }
        Ok(())
    }

    /// Ends the claims that breaks have moved to leases of operators. No client moves a claim back.
    async fn end_marked(&self, id: &SessionId, found: &[KeyValue]) -> Result<()> {
        let marked = |kv: &KeyValue| self.0.lines.marked_claim(id, &kv.key, &kv.value);
        let ending = found.iter().filter_map(marked).map(|claim| self.end_if_marked(claim));
        all(ending).await.into_iter().collect()
    }

    /// Puts the key that keeps all clients from opening the session and from making leases for it.
    /// Returns the keys of the session.
    async fn remember_ended(&self, id: &SessionId) -> Result<Vec<KeyValue>> {
        if self.0.sessions.was_closed(id, self.0.clock.now()) {
            return Ok(Vec::new());
        }
        let (mut fresh, ended) = (false, self.0.lines.ended(id));
        loop {
            let lease = self.tombstone_lease(REMEMBERED, fresh).await;
            let lease = lease.map_err(|error| fault::of(error).without_effect())?;
            let then =
                vec![put(&ended, "closed".into(), lease), range(self.0.lines.of_session(id).all())];
            match self
                .0
                .calls
                .ask("/etcdserverpb.KV/Txn", transaction(Vec::new(), then, Vec::new()))
                .await
            {
                Err(error) if error.is_no_lease() && !fresh => fresh = true,
                asked => {
                    let answer: TxnResponse = asked.map_err(fault::of)?;
                    return Ok(ranges(answer.responses).next().unwrap_or_default().kvs);
                }
            }
        }
    }
}

/// The durations in the record of a session, if the record is on the lease of the session.
fn recorded(kv: &KeyValue, lease: i64) -> Option<SessionSpec> {
    SessionRecord::read(&kv.value).filter(|_| kv.lease == lease)
}

/// Whether a session with the one durations is the session with the other ones. A record has whole
/// microseconds.
fn is_same(one: &SessionSpec, other: &SessionSpec) -> bool {
    one.detached == other.detached && SessionRecord::of(one) == SessionRecord::of(other)
}

/// Another program has the lease or the key of a session.
fn taken() -> Error {
    Error::new(
        ErrorKind::SessionLost,
        "something else in etcd has the lease or the key that this session would have",
    )
    .with_remedy("a session with another id")
}
