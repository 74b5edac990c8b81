//! Renewing the leases of a session, and checking that each claim is still on its lease.
//!
//! etcd renews a lease even if its keys were deleted. So a renewal asks for the keys of the leases
//! at the same time. A key in that list was on the lease after the renewal was sent; a key that is
//! missing proves the loss only if a look finds the same.

mod promote;
mod proof;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use self::promote::Admitted;
use self::proof::Proof;
use crate::layout::Record;
use crate::look::{ClaimStatus, Found};
use crate::sessions::{ClaimState, Purpose, Session};
use crate::store::{ClaimKey, Live, LiveState, Renewal, Renewed, SessionId};
use crate::time::Instant;
use crate::wire::all;
use crate::{ErrorKind, EtcdStore, Result};

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
            doubtful.push(Doubtful { at, live, state });
        }
        claims.push(renewal.unwrap_or(Renewal::Unknown));
    }
    let looked = store.look_at(session, doubtful, &proof, &mut claims).await?;
    store.hold_admitted(session, &looked, &mut claims).await?;
    for (live, claim) in live.iter().zip(&claims) {
        if let Renewal::Held { .. } = claim {
            store.has_replaced(session, &live.key);
        }
    }
    store.sweep(session, live, proof, missed);
    Ok(Renewed { claims, server_time: None, requests: store.requests_for(&looked.records).await })
}

/// A claim whose answer needs a look, and its place in the list of the renewal.
struct Doubtful<'a> {
    at: usize,
    live: &'a Live,
    state: Option<ClaimState>,
}

/// The claims that a look has found admitted, each with its place in the list of the renewal.
#[derive(Default)]
struct Looked<'a> {
    places: Vec<usize>,
    admitted: Vec<Admitted<'a>>,
    /// The claims on the timers of their minimum holds.
    timed: Vec<(usize, &'a ClaimKey, Box<Found>)>,
    /// The records of the claims that another client has made. A request to let go is sent to that
    /// client, which may be gone.
    records: Vec<Record>,
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

impl EtcdStore {
    /// Looks at the doubtful claims, and answers for each claim that was not found admitted.
    async fn look_at<'a>(
        &self,
        session: &Session,
        doubtful: Vec<Doubtful<'a>>,
        proof: &Proof,
        claims: &mut [Renewal],
    ) -> Result<Looked<'a>> {
        let question =
            |one: &Doubtful<'_>| self.question(session, &one.live.key, one.state.as_ref());
        let questions: Vec<_> = doubtful.iter().map(question).collect();
        let mut looked = Looked::default();
        for (Doubtful { at, live, state }, status) in
            doubtful.into_iter().zip(self.look(&questions).await?)
        {
            let found = match status {
                ClaimStatus::Admitted(found) => found,
                status => {
                    claims[at] = self.renewal_of(session, live, state, status, &proof.renewed);
                    continue;
                }
            };
            if session.is_shared() {
                let of_another = |record: &Record| record.client != self.0.client;
                looked.records.extend(found.record.clone().filter(of_another));
            }
            match found.is_timed() {
                true => looked.timed.push((at, &live.key, found)),
                false => {
                    let since = state.and_then(|state| state.granted);
                    looked.admitted.push(Admitted { key: &live.key, found, since });
                    looked.places.push(at);
                }
            }
        }
        Ok(looked)
    }

    /// Moves the admitted claims to the leases of holders, and answers for each claim that holds.
    async fn hold_admitted(
        &self,
        session: &Arc<Session>,
        looked: &Looked<'_>,
        claims: &mut [Renewal],
    ) -> Result<()> {
        let promoted = self.promote_all(session, &looked.admitted).await?;
        for ((at, one), holds) in looked.places.iter().zip(&looked.admitted).zip(promoted) {
            if holds {
                claims[*at] = held(session, &one.found);
            }
        }
        let placing =
            looked.timed.iter().map(|(_, key, found)| self.is_on_the_last(session, key, found));
        for ((at, _, found), on) in looked.timed.iter().zip(all(placing).await) {
            match on {
                Err(error) if error.kind() == ErrorKind::SessionLost => return Err(error),
                Ok(Some(_)) => claims[*at] = held(session, found),
                _ => {}
            }
        }
        Ok(())
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
            ClaimStatus::Blocked { lease, .. } if !renewed.contains(&lease) => Renewal::Unknown,
            ClaimStatus::Blocked { .. } => {
                session.claims.was_looked_at(live.key.id, self.0.clock.now());
                Renewal::Queued
            }
            ClaimStatus::Admitted(_) => Renewal::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

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
