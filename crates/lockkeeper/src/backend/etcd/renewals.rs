//! Renewing: the leases, and whether each claim is still on its own.
//!
//! etcd renews a lease although somebody has deleted what was on it, so that it is asked for the keys in the same breath.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::layout::transaction::{delete, delete_made, transaction};
use super::sessions::{self, Place, Purpose, Session};
use super::standing::Standing;
use super::wire::all;
use super::wire::messages::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, RangeRequest, TxnResponse};
use super::{EtcdStore, fault, wait};
use crate::store::{Live, LiveState, Renewal, Renewed, SessionId};
use crate::time::Instant;
use crate::{Error, ErrorKind, Result};

/// For how long a watch is trusted to tell of a grant without a look.
const TRUSTED: Duration = Duration::from_secs(30);
/// How long a renewal of a session may take that somebody else has opened.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn renew(store: &EtcdStore, id: &SessionId, live: &[Live]) -> Result<Renewed> {
    let session = store.0.sessions.get(id)?;
    let trusted = store.0.clock.now() - TRUSTED;
    let proof = store.prove(&session, live, trusted).await?;
    let mut claims = Vec::with_capacity(live.len());
    let mut doubtful = Vec::new();
    for (at, live) in live.iter().enumerate() {
        let place = session.place(live.key.id);
        let seat = session.seat_of(&store.0.lines, &live.key).at;
        let renewal = at_once(&session, live, place.as_ref(), proof.keys.get(&seat).copied(), &proof, trusted);
        if renewal.is_none() {
            doubtful.push((at, live, place));
        }
        claims.push(renewal.unwrap_or(Renewal::Unknown));
    }
    let asked: Vec<_> =
        doubtful.iter().map(|(_, live, place)| wait::asked(store, &session, &live.key, place.as_ref())).collect();
    for ((at, live, place), standing) in doubtful.into_iter().zip(store.look(&asked).await?) {
        claims[at] = match store.stands(&session, live, place, standing, &proof.renewed).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => return Err(error),
            // The others are what they are.
            Err(_) => Renewal::Unknown,
            Ok(renewal) => renewal,
        };
    }
    store.sweep(&session, live, proof).await;
    Ok(Renewed { claims, server_time: None })
}

/// What needs no look: that it holds is what it was found to do, and its key is where it was.
fn at_once(
    session: &Session,
    live: &Live,
    place: Option<&Place>,
    lease: Option<i64>,
    proof: &Proof,
    trusted: Instant,
) -> Option<Renewal> {
    match (live.state, place, lease) {
        (LiveState::InFlight, _, None) => Some(Renewal::Unknown),
        (LiveState::Granted, Some(place), Some(lease))
            if place.held && lease == place.lease && session.purpose(lease) == Some(Purpose::Hold) =>
        {
            Some(Renewal::Held { token: place.created.unsigned_abs() })
        }
        // Its watch tells when it is let in, and of its end; one that was broken is on another lease.
        (LiveState::Queued, Some(place), lease)
            if place.waits_watched(trusted)
                && lease.map_or(!proof.listed.contains(&place.lease), |lease| lease == place.lease)
                && proof.renewed.contains(&place.lease) =>
        {
            Some(Renewal::Queued)
        }
        _ => None,
    }
}

/// What a renewal of a session has shown.
struct Proof {
    /// Which keys are on which of those leases that were asked for them.
    keys: HashMap<Bytes, i64>,
    listed: Vec<i64>,
    /// Whether all were asked.
    is_whole: bool,
    /// The leases that live on.
    renewed: Vec<i64>,
}

impl EtcdStore {
    /// Renews all leases of a session: which keys are on which, as far as that matters.
    async fn prove(&self, session: &Session, live: &[Live], trusted: Instant) -> Result<Proof> {
        let sent = self.0.clock.now();
        let mut leases = session.living(sent);
        let listed = session.to_list(&leases, live, trusted, sent);
        let within = session.life.map_or(PATIENCE, |ttl| ttl / 4);
        let (lives, keys) = tokio::join!(self.0.calls.keep_alive(&leases, within), self.keys_on(&listed, within));
        let mut over: Vec<i64> = Vec::new();
        for (lease, seconds) in lives.map_err(fault::of)? {
            match session.is_renewed(lease, seconds)? {
                true => session.renewed(lease, sent),
                false => over.push(lease),
            }
        }
        let (keys, gone) = keys?;
        if gone.iter().any(|lease| !over.contains(lease)) {
            // A lease that is renewed and not there: one of two leaders is none.
            return Err(Error::new(ErrorKind::Unavailable, "the members of etcd contradict each other about a lease")
                .with_remedy("lockkeeper doctor"));
        }
        if over.iter().any(|lease| session.purpose(*lease) == Some(Purpose::Hold)) {
            return Err(sessions::lost());
        }
        let is_whole = listed.len() == leases.len();
        leases.retain(|lease| !over.contains(lease));
        // Who waited there finds that it is not there any more.
        over.into_iter().for_each(|lease| session.ended(lease));
        if is_whole {
            session.was_listed(sent);
        }
        Ok(Proof { keys, listed, is_whole, renewed: leases })
    }

    /// Which keys are on which of these leases, and which of them are not there.
    async fn keys_on(&self, leases: &[i64], within: Duration) -> Result<(HashMap<Bytes, i64>, Vec<i64>)> {
        let (mut found, mut gone) = (HashMap::new(), Vec::new());
        let ask = |lease: &i64| {
            let request = LeaseTimeToLiveRequest { id: *lease, keys: true };
            self.0.calls.ask_within("/etcdserverpb.Lease/LeaseTimeToLive", request, within)
        };
        for (lease, asked) in leases.iter().zip(all(leases.iter().map(ask)).await) {
            let answer: LeaseTimeToLiveResponse = asked.map_err(fault::of)?;
            // What is left is cut to whole seconds; -1 is for what is not there.
            if answer.ttl < 0 {
                gone.push(*lease);
            }
            found.extend(answer.keys.into_iter().map(|key| (key, *lease)));
        }
        Ok((found, gone))
    }

    async fn stands(
        &self,
        session: &Session,
        live: &Live,
        place: Option<Place>,
        standing: Standing,
        renewed: &[i64],
    ) -> Result<Renewal> {
        Ok(match standing {
            Standing::Absent | Standing::Broken(_) if place.is_some() && session.place(live.key.id).is_none() => {
                // It was withdrawn meanwhile.
                Renewal::Unknown
            }
            Standing::Absent if live.state == LiveState::InFlight => Renewal::Unknown,
            Standing::Absent => Renewal::Lost(None),
            Standing::Broken(broken) => Renewal::Lost(Some(broken)),
            // On a lease that this renewal has not renewed it has not a waiter's whole life.
            Standing::Behind { lease, .. } if !renewed.contains(&lease) => Renewal::Unknown,
            Standing::Behind { .. } => {
                if place.is_some_and(|place| place.watched.is_some()) {
                    session.is_watched(live.key.id, Some(self.0.clock.now()));
                }
                Renewal::Queued
            }
            Standing::First { created, lease } => match self.let_in(session, &live.key, created, lease).await? {
                true => Renewal::Held { token: created.unsigned_abs() },
                false => Renewal::Unknown,
            },
        })
    }

    /// Deletes what lost replies have left on the leases. What fails is tried again with the next renewal.
    async fn sweep(&self, session: &Arc<Session>, live: &[Live], proof: Proof) {
        let now = self.0.clock.now();
        if proof.is_whole {
            self.sweep_leases(session, &proof.keys, now).await;
            self.sweep_keys(session, live, proof.keys, now).await;
        }
        let said = session.gone_for_long(now);
        for keys in said.chunks(100) {
            let request = transaction(Vec::new(), keys.iter().map(delete).collect(), Vec::new());
            let swept = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
            if let Err(error) = swept.map(|_: TxnResponse| ()).map_err(fault::of) {
                self.tell_unswept(&error);
                return said.into_iter().for_each(|key| session.said_gone(key, now));
            }
        }
    }

    /// Gives back the leases on which nothing has stood for a while.
    async fn sweep_leases(&self, session: &Session, found: &HashMap<Bytes, i64>, now: Instant) {
        for lease in session.given_back(&found.values().copied().collect(), now) {
            if let Err(error) = self.revoke(lease).await {
                self.tell_unswept(&error);
            }
        }
    }

    async fn sweep_keys(&self, session: &Arc<Session>, live: &[Live], mut found: HashMap<Bytes, i64>, now: Instant) {
        for live in live {
            found.remove(&session.seat_of(&self.0.lines, &live.key).at);
        }
        let unlisted = found.into_keys().filter(|key| self.0.lines.is_claim(key)).collect();
        for over in session.left_over(unlisted, now) {
            if let Err(error) = self.remove(session, &over).await {
                self.tell_unswept(&error);
            }
        }
    }

    /// Removes a leftover, unless another claim has got its seat meanwhile.
    async fn remove(&self, session: &Session, over: &Bytes) -> Result<()> {
        let there = self.range(RangeRequest { key: over.clone(), keys_only: true, ..RangeRequest::default() }).await?;
        let Some(there) = there.kvs.first().filter(|_| !session.was_taken_lately(over, self.0.clock.now())) else {
            return Ok(());
        };
        let request = transaction(Vec::new(), vec![delete_made(over, there.create_revision)], Vec::new());
        let removed = self.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
        removed.map(|_: TxnResponse| ()).map_err(fault::of)
    }

    fn tell_unswept(&self, error: &Error) {
        tracing::debug!(target: "lockkeeper", store = %self, %error, "leftovers were not removed");
    }
}
