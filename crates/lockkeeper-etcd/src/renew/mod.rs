//! Renewing the leases of a session, and checking that each claim is still on its lease.
//!
//! etcd renews a lease even if its keys were deleted. So a renewal asks for the keys of the leases
//! at the same time. A key in that list was on the lease after the renewal was sent; a key that is
//! missing proves the loss only if a look finds the same.

mod promote;
mod sweep;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use self::promote::Admitted;
use crate::layout::Record;
use crate::look::{ClaimStatus, Found};
use crate::sessions::{self, ClaimState, Purpose, Session};
use crate::store::{ClaimKey, Live, LiveState, Renewal, Renewed, SessionId};
use crate::time::Instant;
use crate::wire::all;
use crate::wire::messages::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse};
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

/// For so long a watch replaces the look for a grant.
const TRUSTED: Duration = Duration::from_secs(30);

pub(crate) async fn renew(store: &EtcdStore, id: &SessionId, live: &[Live]) -> Result<Renewed> {
    let session = store.session(id).await?;
    let renewed = renew_all(store, id, &session, live).await;
    if renewed.as_ref().is_err_and(|error| error.kind() == ErrorKind::SessionLost) {
        store.0.sessions.lost(&session);
    }
    renewed
}

async fn renew_all(
    store: &EtcdStore,
    id: &SessionId,
    session: &Arc<Session>,
    live: &[Live],
) -> Result<Renewed> {
    let missed = match session.is_shared() {
        true => store.catch_up(id, session, live, store.0.clock.now()).await?,
        false => Vec::new(),
    };
    let trusted = store.0.clock.now() - TRUSTED;
    let proof = store.prove(session, live, trusted).await?;
    let mut claims = Vec::with_capacity(live.len());
    let mut doubtful = Vec::new();
    for (at, live) in live.iter().enumerate() {
        let state = session.claims.state(live.key.id);
        let slot = session.claims.slot_of(&store.0.lines, &live.key).at;
        let renewal =
            at_once(session, live, state.as_ref(), proof.keys.get(&slot).copied(), &proof, trusted);
        if renewal.is_none() {
            doubtful.push((at, live, state));
        }
        claims.push(renewal.unwrap_or(Renewal::Unknown));
    }
    let questions: Vec<_> = doubtful
        .iter()
        .map(|(_, live, state)| store.question(session, &live.key, state.as_ref()))
        .collect();
    let (mut admitted, mut positions, mut timed, mut records) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((at, live, state), found_status) in doubtful.into_iter().zip(store.look(&questions).await?)
    {
        if let ClaimStatus::First(found) = &found_status
            && session.is_shared()
        {
            // Requests to let go are sent to the client that made the claim, which may be gone.
            records.extend(found.record.clone().filter(|record| record.client != store.0.client));
        }
        match found_status {
            ClaimStatus::First(found) if found.is_timed() => timed.push((at, &live.key, found)),
            ClaimStatus::First(found) => {
                let since = state.and_then(|state| state.granted);
                admitted.push(Admitted { key: &live.key, found, since });
                positions.push(at);
            }
            found_status => {
                claims[at] = store.renewal_of(session, live, state, found_status, &proof.renewed)
            }
        }
    }
    for ((at, one), holds) in
        positions.into_iter().zip(&admitted).zip(store.promote_all(session, &admitted).await?)
    {
        if holds {
            claims[at] = held(session, &one.found);
        }
    }
    let on =
        all(timed.iter().map(|(_, key, found)| store.is_on_the_last(session, key, found))).await;
    for ((at, _, found), on) in timed.iter().zip(on) {
        match on {
            Err(error) if error.kind() == ErrorKind::SessionLost => return Err(error),
            Ok(Some(_)) => claims[*at] = held(session, found),
            _ => {}
        }
    }
    for (live, claim) in live.iter().zip(&claims) {
        if let Renewal::Held { .. } = claim {
            store.has_replaced(session, &live.key);
        }
    }
    store.sweep(session, live, proof, missed);
    Ok(Renewed { claims, server_time: None, requests: store.requests_for(&records).await })
}

/// The answer for a claim that was found to hold. A key without a record is of no client of
/// lockkeeper, and no client of lockkeeper renews it.
fn held(session: &Session, found: &Found) -> Renewal {
    let ttl = found.record.as_ref().map_or(Duration::ZERO, Record::ttl);
    Renewal::Held { token: found.created.unsigned_abs(), ttl: session.keeps(ttl) }
}

/// The answer for a claim that needs no look: it was found to hold, or it waits and its watch would
/// report a change, and its key is where it was.
fn at_once(
    session: &Session,
    live: &Live,
    state: Option<&ClaimState>,
    lease: Option<i64>,
    proof: &Proof,
    trusted: Instant,
) -> Option<Renewal> {
    match (live.state, state, lease) {
        (LiveState::InFlight, _, None) => Some(Renewal::Unknown),
        // Another client may be about to move a claim of a detached session to the timer of its
        // minimum hold. The renewal writes the claim, so that such a move comes before it or fails.
        (LiveState::Granted, Some(state), Some(lease))
            if !session.is_shared()
                && state.held
                && state.is_dated
                && lease == state.lease
                && session.leases.purpose(lease) == Some(Purpose::Hold) =>
        {
            Some(Renewal::Held {
                token: state.created.unsigned_abs(),
                ttl: session.keeps(state.record.ttl()),
            })
        }
        // The watch of the claim reports its grant and its end. A claim that was broken is on
        // another lease.
        (LiveState::Queued, Some(state), lease)
            if state.waits_watched(trusted)
                && lease
                    .map_or(!proof.listed.contains(&state.lease), |lease| lease == state.lease)
                && proof.renewed.contains(&state.lease) =>
        {
            Some(Renewal::Queued)
        }
        _ => None,
    }
}

/// What a renewal of a session has shown.
pub(crate) struct Proof {
    /// The lease of each key, for the leases that were listed.
    pub(crate) keys: HashMap<Bytes, i64>,
    listed: Vec<i64>,
    /// Whether all leases were listed.
    pub(crate) is_whole: bool,
    /// The leases that live on.
    renewed: Vec<i64>,
    /// When the requests were sent. The list proves nothing about a claim that has joined since.
    pub(crate) sent: Instant,
}

/// The keys on some leases.
#[derive(Default)]
struct Listed {
    keys: HashMap<Bytes, i64>,
    /// The leases that have ended.
    gone: Vec<i64>,
}

impl EtcdStore {
    /// Renews all leases of a session, and lists the keys of the leases for which that matters.
    async fn prove(&self, session: &Session, live: &[Live], trusted: Instant) -> Result<Proof> {
        let sent = self.0.clock.now();
        let mut leases = session.leases.living(sent);
        let listed = session.to_list(&leases, live, trusted, sent);
        let within = session.spec.ttl / 4;
        let (ttls, on_leases) =
            tokio::join!(self.0.calls.keep_alive(&leases, within), self.keys_on(&listed, within));
        let mut over: Vec<i64> = Vec::new();
        let ttls = ttls.map_err(fault::of)?;
        let Listed { keys, gone } = on_leases?;
        for (lease, seconds) in ttls {
            match session.leases.is_renewed(lease, seconds)? {
                true => session.leases.renewed(lease, sent, seconds),
                false => over.push(lease),
            }
        }
        if gone.iter().any(|lease| !over.contains(lease)) {
            // One member renews a lease that another member does not have: one of the two has an
            // old state.
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the members of etcd contradict each other about a lease",
            )
            .with_remedy("lockkeeper doctor"));
        }
        if over.iter().any(|lease| session.leases.purpose(*lease) == Some(Purpose::Hold)) {
            return Err(sessions::lost());
        }
        let is_whole = listed.len() == leases.len();
        leases.retain(|lease| !over.contains(lease));
        // The claims that waited on these leases are gone, which their looks find.
        over.into_iter().for_each(|lease| session.leases.ended(lease));
        if is_whole {
            session.lists.was_listed(sent);
        }
        Ok(Proof { keys, listed, is_whole, renewed: leases, sent })
    }

    /// The claims of a session, in `live` or not, that do not end with these leases: a break or a
    /// minimum hold has moved them to other leases, or may do so.
    pub(crate) async fn not_on(
        &self,
        session: &Session,
        id: &SessionId,
        leases: &[i64],
        live: &[Live],
    ) -> Result<Vec<ClaimKey>> {
        let mut claims = session.claims.with_slots(id);
        claims.extend(
            live.iter()
                .filter(|live| !session.claims.has_slot(live.key.id))
                .map(|live| live.key.clone()),
        );
        if claims.is_empty() {
            return Ok(claims);
        }
        let Listed { keys, .. } = self.keys_on(leases, self.0.timeout).await?;
        claims.retain(|key| {
            let slot = session.claims.slot_of(&self.0.lines, key);
            slot.timer.is_some() || !keys.contains_key(&slot.at)
        });
        Ok(claims)
    }

    /// The keys of the claims on these leases.
    pub(crate) async fn claims_on(&self, leases: &[i64]) -> Result<Vec<Bytes>> {
        let Listed { keys, .. } = self.keys_on(leases, self.0.timeout).await?;
        Ok(keys.into_keys().filter(|key| self.0.lines.is_claim(key)).collect())
    }

    /// The keys on these leases, and the leases that have ended.
    async fn keys_on(&self, leases: &[i64], within: Duration) -> Result<Listed> {
        let mut listed = Listed::default();
        let ask = |lease: &i64| {
            let request = LeaseTimeToLiveRequest { id: *lease, keys: true };
            self.0.calls.ask_within("/etcdserverpb.Lease/LeaseTimeToLive", request, within)
        };
        for (lease, asked) in leases.iter().zip(all(leases.iter().map(ask)).await) {
            let answer: LeaseTimeToLiveResponse = asked.map_err(fault::of)?;
            // etcd answers -1 for a lease that has ended, and 0 for one with less than a second
            // left.
            if answer.ttl < 0 {
                listed.gone.push(*lease);
            }
            listed.keys.extend(answer.keys.into_iter().map(|key| (key, *lease)));
        }
        Ok(listed)
    }

    /// The answer for a claim that a look did not find admitted.
    fn renewal_of(
        &self,
        session: &Session,
        live: &Live,
        state: Option<ClaimState>,
        found_status: ClaimStatus,
        renewed: &[i64],
    ) -> Renewal {
        match found_status {
            ClaimStatus::Absent | ClaimStatus::Broken(_)
                if state.is_some() && session.claims.state(live.key.id).is_none() =>
            {
                // The claim was withdrawn meanwhile.
                Renewal::Unknown
            }
            ClaimStatus::Absent if live.state == LiveState::InFlight => Renewal::Unknown,
            ClaimStatus::Absent => Renewal::Lost(None),
            ClaimStatus::Broken(broken) => Renewal::Lost(Some(broken)),
            // A claim on a lease that this renewal has not renewed may end before a whole
            // `wait_ttl`.
            ClaimStatus::Behind { lease, .. } if !renewed.contains(&lease) => Renewal::Unknown,
            ClaimStatus::Behind { .. } => {
                session.claims.was_looked_at(live.key.id, self.0.clock.now());
                Renewal::Queued
            }
            ClaimStatus::First(_) => Renewal::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, Lines, lease_of};
    use crate::sessions::Sessions;
    use crate::store::{Claim, ClaimId, SessionId, SessionSpec};
    use crate::time::Clock;

    #[test]
    fn a_renewal_looks_for_a_claim_that_may_be_moved_late() {
        let (sessions, ttl, now) =
            (Sessions::default(), Duration::from_secs(30), Clock::boot().now());
        let spec = SessionSpec::new(ttl, Duration::ZERO);
        let id = SessionId::random();
        let first = lease_of(&id);
        let session = sessions.opened(&id, &spec, true, now);
        let key = ClaimKey { name: "a".parse().unwrap(), session: id, id: ClaimId::random() };
        let claim = Claim::exclusive(key.clone(), &spec);
        let (id, at) =
            (key.id, session.claims.slot(&Lines::new(Layout::Native, None), &key, now).at);
        let record = Arc::new(Record::of(&claim, &"c".into()));
        let state = ClaimState { held: true, is_dated: true, ..ClaimState::new(first, 1, record) };
        session.claims.insert(id, state);
        let keys = HashMap::from([(at, first)]);
        let proof =
            Proof { keys, listed: vec![first], is_whole: true, renewed: vec![first], sent: now };
        let live = Live { key, state: LiveState::Granted };
        let at_once = || {
            at_once(&session, &live, session.claims.state(id).as_ref(), Some(first), &proof, now)
        };
        assert_eq!(at_once(), Some(Renewal::Held { token: 1, ttl }));
        session.claims.is_unsettled(id);
        assert_eq!(at_once(), None);
        session.claims.holds(id, first, 1);
        assert_eq!(at_once(), None, "what was only found may be moved still");
        session.claims.is_dated(id);
        assert_eq!(at_once(), Some(Renewal::Held { token: 1, ttl }));
    }
}
